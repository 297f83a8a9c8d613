"""`stentor bench narada`: what reliable delivery costs, in the networks of Pallickara et al. and as they measured."""
