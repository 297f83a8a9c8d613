"""What operators, and plans, make a broker do at run time.

`admin_requests` checks an order, has it written down, carries it out and confirms it; `order_log` is what is written
down, and what of it still means something at the next start.
"""
