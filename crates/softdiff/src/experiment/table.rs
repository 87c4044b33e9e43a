//! The table of all experiments. Numbers of the paper are FID of 50000 images, on CelebA-64 where nothing else is said; steps
//! are named where the paper tells them.

use super::{Experiment, SamplerSetting, Show, Variant};

/// A setting without a number in the paper.
const fn at(sampler: &'static str, small: usize, full: usize) -> SamplerSetting {
    SamplerSetting { sampler, small, full, paper: "" }
}

/// One with a number.
const fn reported(sampler: &'static str, small: usize, full: usize, paper: &'static str) -> SamplerSetting {
    SamplerSetting { sampler, small, full, paper }
}

const fn model(name: &'static str, sets: &'static [&'static str], settings: &'static [SamplerSetting]) -> Variant {
    Variant { name, sets, settings }
}

/// The base recipe as it is.
const SAME: &[&str] = &[];
/// With score_sde's largest noise for the size of the images.
const VE: &[&str] = &["path=", "schedule=", "prior=", "path.kind=ve", "path.smallest=0.01"];
const VP: &[&str] = &["path=", "schedule=", "prior=", "path.kind=vp"];
const SUB_VP: &[&str] = &["path=", "schedule=", "prior=", "path.kind=sub-vp"];
/// One pixel at a time: as many masks as pixels. A quarter of as many steps, and as many, are the paper's 1024 and 4096.
const MASKING: &[&str] = &[
    "path.corruption=",
    "schedule=",
    "prior=",
    "path.corruption.kind=masking",
    "path.corruption.order=spiral",
    "schedule.method=straight",
    "prior.kind=noise",
];
/// With its own number of knots.
const MSE_MATCHED: &[&str] = &["schedule.method=mse-matched", "schedule.knots="];
const SIMULTANEOUS: &[&str] = &["path.noise_stage=", "path.kind=simultaneous"];

/// The paper's blur; its levels are then gone through with reflected borders, where the exact denoiser is known.
const EXACT_SHORTEST: &[&str] = &[
    "path=",
    "schedule=",
    "prior=",
    "path.kind=two-stage",
    "path.corruption.kind=blur",
    "schedule.method=shortest-path",
    "prior.kind=noise",
];
const EXACT_MSE_MATCHED: &[&str] = &[
    "path=",
    "schedule=",
    "prior=",
    "path.kind=two-stage",
    "path.corruption.kind=blur",
    "schedule.method=mse-matched",
    "prior.kind=noise",
];

/// The steps of an exact measurement, with what the paper reports at 280 and at 2000.
const fn exact_steps(at_280: &'static str, at_2000: &'static str) -> [SamplerSetting; 5] {
    [
        at("momentum", 50, 50),
        at("momentum", 100, 100),
        reported("momentum", 280, 280, at_280),
        at("momentum", 1000, 1000),
        reported("momentum", 2000, 2000, at_2000),
    ]
}

const BEST: &str = "1.85 at 280 steps";
const USUAL: &[SamplerSetting] = &[reported("momentum", 30, 280, BEST)];

/// All of them, in the order of the paper.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "results",
        paper: "Table 1 (FID on CelebA-64) and section 4 (CIFAR-10)",
        question: "Does blur with a little noise make better images than noise alone?",
        finding: "FID 1.85 on CelebA-64 against 1.90 to 3.95; 3.86 on CIFAR-10, better than VE.",
        variants: &[
            model(
                "blur",
                SAME,
                &[
                    reported("momentum", 30, 280, "1.85 at 280 steps; CIFAR-10: 3.91"),
                    reported("flow-momentum", 30, 280, "CIFAR-10: 3.86"),
                ],
            ),
            model("ve", VE, &[reported("reverse-diffusion", 100, 1000, "3.25; CIFAR-10: 4.79")]),
            model(
                "vp",
                VP,
                &[reported("ancestral", 100, 1000, "3.26 (DDPM)"), reported("ddim", 100, 1000, "3.51 (DDIM)")],
            ),
            model("sub-vp", SUB_VP, &[reported("euler-maruyama", 100, 1000, "3.95")]),
        ],
        shows: &[],
        exact: false,
    },
    Experiment {
        name: "fid-vs-nfe",
        paper: "Figure 3 (CelebA-64) and Figure 8 (CIFAR-10): FID versus NFEs",
        question: "How few evaluations of the network are enough?",
        finding: "Blur needs significantly fewer steps than VE for the same quality.",
        variants: &[
            model(
                "blur",
                SAME,
                &[
                    at("momentum", 5, 25),
                    at("momentum", 10, 50),
                    at("momentum", 20, 100),
                    reported("momentum", 40, 280, BEST),
                    at("momentum", 80, 1000),
                ],
            ),
            model(
                "ve",
                VE,
                &[
                    at("reverse-diffusion", 5, 25),
                    at("reverse-diffusion", 10, 50),
                    at("reverse-diffusion", 20, 100),
                    at("reverse-diffusion", 40, 280),
                    at("reverse-diffusion", 80, 1000),
                ],
            ),
        ],
        shows: &[],
        exact: false,
    },
    Experiment {
        name: "samples",
        paper: "Figures 1, 2 and 10 to 12: the corruptions and uncurated samples",
        question: "What do corruptions and samples look like?",
        finding: "High diversity and fidelity.",
        variants: &[
            model("blur", SAME, USUAL),
            model("masking", MASKING, &[reported("momentum", 128, 4096, "12.37 at 4096 steps")]),
        ],
        shows: &[Show::Paths],
        exact: false,
    },
    Experiment {
        name: "sampler-ablation",
        paper: "Figure 4 and section 4, \"Ablation Study for Sampling\"",
        question: "Does the sampler matter?",
        finding: "Naive samples repeat themselves and lack detail: FID 27.82 against 1.85.",
        variants: &[model(
            "blur",
            SAME,
            &[
                reported("naive", 30, 280, "27.82"),
                reported("momentum", 30, 280, BEST),
                reported("flow-momentum", 30, 280, "CIFAR-10: 3.86; momentum there 3.91"),
                at("multistep", 30, 280),
                at("heun", 15, 140),
            ],
        )],
        shows: &[],
        exact: false,
    },
    Experiment {
        name: "loss-ablation",
        paper: "section 4, \"Training Objective\"",
        question: "Does the loss matter?",
        finding: "FID 5.91 with the loss of the clean image, an upper bound, against 1.85.",
        variants: &[
            model("soft", &["objective.kind=soft"], USUAL),
            model("clean", &["objective.kind=clean"], &[reported("momentum", 30, 280, "5.91")]),
        ],
        shows: &[],
        exact: false,
    },
    Experiment {
        name: "schedule-ablation",
        paper: "Appendix, \"Ablation Study for Blur\"",
        question: "Does the choice of levels matter?",
        finding: "Levels matched to the error of VE give FID 8.35, best at 2000 steps; the shortest path 1.85, best at 280.",
        variants: &[
            model(
                "shortest-path",
                SAME,
                &[at("momentum", 10, 100), reported("momentum", 30, 280, BEST), at("momentum", 90, 2000)],
            ),
            model(
                "mse-matched",
                MSE_MATCHED,
                &[
                    at("momentum", 10, 100),
                    at("momentum", 30, 280),
                    reported("momentum", 90, 2000, "8.35 at 2000 steps"),
                ],
            ),
        ],
        shows: &[Show::Schedules],
        exact: false,
    },
    Experiment {
        name: "schedule-oracle",
        paper: "Appendix, \"Ablation Study for Blur\", without a network",
        question: "Does the choice of levels matter to the sampler alone, when the denoiser is exact?",
        finding: "Matched levels are best at 2000 steps, the shortest path at 280.",
        variants: &[
            model("shortest-path", EXACT_SHORTEST, &const { exact_steps(BEST, "") }),
            model("mse-matched", EXACT_MSE_MATCHED, &const { exact_steps("", "8.35 at 2000 steps") }),
        ],
        shows: &[Show::Schedules],
        exact: true,
    },
    Experiment {
        name: "noise-magnitude",
        paper: "Figure 7 and Appendix, \"Magnitude of noise\"",
        question: "How much noise is needed, and does more help?",
        finding: "With less than 0.1 the models fail to produce realistic samples.",
        variants: &[
            model("noise-0.1", &["path.largest=0.1"], USUAL),
            model("noise-0.05", &["path.largest=0.05"], &[reported("momentum", 30, 280, "fails, no number")]),
            model("noise-0.025", &["path.largest=0.025"], &[reported("momentum", 30, 280, "fails, no number")]),
            // More than the paper tried, with a noise stage that is longer in turn.
            model("noise-0.2", &["path.largest=0.2", "path.noise_stage=0.3"], &[at("momentum", 30, 280)]),
            model("noise-0.4", &["path.largest=0.4", "path.noise_stage=0.4"], &[at("momentum", 30, 280)]),
            model("noise-1.0", &["path.largest=1.0", "path.noise_stage=0.6"], &[at("momentum", 30, 280)]),
        ],
        shows: &[],
        exact: false,
    },
    Experiment {
        name: "simultaneous-noise",
        paper: "Appendix, \"Noise changing throughout the diffusion\"",
        question: "Does it work when noise and blur change together?",
        finding: "Yes: FID 4.31.",
        variants: &[
            model("two-stage", SAME, USUAL),
            model("simultaneous", SIMULTANEOUS, &[reported("momentum", 30, 280, "4.31")]),
        ],
        shows: &[Show::Schedules],
        exact: false,
    },
    Experiment {
        name: "masking",
        paper: "Figure 12 and section 4, \"Masking Diffusion Models\"",
        question: "Can images be made by uncovering them?",
        finding: "Yes, in many steps: FID 30.92 with 1024, 12.37 with 4096.",
        variants: &[model(
            "masking",
            MASKING,
            &[
                reported("momentum", 196, 1024, "30.92 at 1024 steps"),
                reported("momentum", 784, 4096, "12.37 at 4096 steps"),
            ],
        )],
        shows: &[Show::Paths],
        exact: false,
    },
    Experiment {
        name: "conditional-means",
        paper: "Figure 5: conditional means",
        question: "What does the network predict on the way?",
        finding: "Blur models predict whole blurry images, masking models only what they nearly see.",
        variants: &[
            model("blur", SAME, USUAL),
            model("masking", MASKING, &[reported("momentum", 128, 4096, "12.37 at 4096 steps")]),
        ],
        shows: &[Show::Means],
        exact: false,
    },
    Experiment {
        name: "nearest-neighbours",
        paper: "Figure 9: nearest neighbours in the training set (L2 of pixels)",
        question: "Does the model only remember?",
        finding: "No: samples differ from their nearest training images.",
        variants: &[model("blur", SAME, USUAL)],
        shows: &[Show::Neighbours],
        exact: false,
    },
    Experiment {
        name: "schedules",
        paper: "Figure 6: diffusion scheduling for CelebA-64 and CIFAR-10",
        question: "How do the levels run, and do they depend on the data?",
        finding: "Slightly different between the two data sets.",
        variants: &[
            model("shortest-path", SAME, &[]),
            model("equal-arc-length", &["schedule.method=equal-arc-length"], &[]),
            model("mse-matched", MSE_MATCHED, &[]),
        ],
        shows: &[Show::Schedules],
        exact: false,
    },
];
