"""The topics of one repository node: which it manages, which sleep, which wait to be opened, and its report."""
