"""The operator's question: what would this month have been under another policy?

``checks`` -> what is odd about a log; ``spans`` -> the jobs that count, by week; ``owners`` ->
whose jobs they are, names hidden; ``what_if`` -> every policy on the log's own cluster, beside what
happened and the bound; ``capacity`` -> the smallest cluster at equal waits; ``words`` and ``page``
-> what people read. ``advising`` does all of it: ``jaxsched.advise`` and ``jaxsched advise``.
"""
