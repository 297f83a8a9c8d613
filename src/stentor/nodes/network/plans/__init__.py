"""What plans make a broker do.

Read `plan_work` first: the steps of a plan in one scope, from its announcement to its end. `plan_links` is what they do
to the links; `returning_links` are links that were lost, are there again, and wait for a plan.
"""
