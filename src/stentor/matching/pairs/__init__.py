"""The pair index: which of any number of subscriptions want an event, one by one."""
