"""The topics of one repository node: which it manages, which sleep, which wait to be opened, and its report. Of the
topic under which it keeps traces: which of them it misses.
"""
