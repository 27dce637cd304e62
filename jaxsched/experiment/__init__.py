"""The functions of a script: train, compare, look ahead, replay, export.

``import jaxsched`` offers all of it; the command line parses, calls this layer, and prints.
"""
