"""Private files beside what else can be had at the same loss: `python -m benchmarks.private_microdata [--quick]`.

Census and Adult, means over several runs. Beside discreet's three methods: noise on every record, a noisy tree of every
column on its own, and MST of smartnoise-synth. MST calibrates for one row added or removed, where a table moves by 1;
discreet hides what a row holds, where it moves by 2; they are compared at the same (epsilon, delta) all the same.
"""
