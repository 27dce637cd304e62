"""The operator's question: how would this month have gone under another policy?

``checks`` -> oddities of a log; ``spans`` -> the measured jobs, by week; ``owners`` -> owners of
jobs, names hidden; ``what_if`` -> every policy on the log's own cluster, beside the log's
schedule and the bound; ``capacity`` -> the smallest cluster at equal waits; ``words`` and ``page``
-> output to read. ``advising`` does all of it: ``jaxsched.advise`` and ``jaxsched advise``.
"""
