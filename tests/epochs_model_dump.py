"""Runs the executable specification over one recorded conversation and prints what it decides, for tests/core/epochs.rs.

python3 epochs_model_dump.py DIRECTORY_OF_THE_MODEL CONVERSATION.json
One JSON line per configuration and turn: configuration, number of elements, fixed bytes, boundaries, what leaves."""
import dataclasses, json, sys

sys.path.insert(0, sys.argv[1])
import epochs_model as model

CONFIGURATIONS = [
    (model.Config(), False),
    (model.Config(min_reduction=50, kappa=3000), True),
    (model.Config(cost_gate=False, epoch_tokens=16000, epoch_pairs=1), False),
    (model.Config(0, 0, 0, 0, epoch_pairs=1, cost_gate=False), True),
    (model.Config(10000, 500, 24, 20, 8000, target_ratio=600), False),
]

_, elements, fixed = model.load(sys.argv[2])
turns = model.turns_of(elements)
chosen = sorted({turns[len(turns) * k // 5 - 1] for k in range(1, 6) if len(turns) * k // 5})
for number, (config, markers) in enumerate(CONFIGURATIONS):
    judge = model.hashed_judge(f"{number}")
    for turn in chosen:
        decided = model.decide(elements[:turn], fixed, config, judge, markers)
        print(json.dumps({
            "configuration": dataclasses.asdict(config), "markers": markers, "turn": turn, "fixed": fixed,
            "boundaries": [{"end": b.end, "replies": b.replies, "eligible": b.eligible,
                            "verdicts": [b.verdicts[o] for o in b.eligible], "applied": b.applied} for b in decided.boundaries],
            "removed": sorted(decided.removed), "original": decided.original, "reduced": decided.reduced,
        }))
