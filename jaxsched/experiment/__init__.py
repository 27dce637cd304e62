"""What a script does with the library: train, compare, look, hand over.

``import jaxsched`` offers all of it; the command line parses, calls this layer, and prints.
"""
