//! What can be fetched. Lengths and SHA-256 sums are those that TensorFlow Datasets has published for these addresses
//! (`url_checksums`); that of the network is in part in its own name, as torch.hub has it.

use super::{NamedData, OtherForm, PublishedFile};

/// Everything that has a name.
pub const NAMED: &[&NamedData] = &[&CIFAR10, &FASHION_MNIST, &MNIST, &FID_INCEPTION];

/// CIFAR-10, binary version (Krizhevsky 2009). The archive is read as it is.
pub static CIFAR10: NamedData = NamedData {
    name: "cifar10",
    what: "CIFAR-10: 60,000 colour images of 32 x 32 in 10 classes",
    place: "cifar-10-binary.tar.gz",
    files: &[PublishedFile {
        path: "cifar-10-binary.tar.gz",
        addresses: &["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"],
        bytes: 170_052_171,
        sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    }],
    instead: Some(OtherForm {
        place: "cifar-10-batches-bin",
        files: &[
            (
                "cifar-10-batches-bin/data_batch_1.bin",
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            ),
            (
                "cifar-10-batches-bin/data_batch_2.bin",
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            ),
            (
                "cifar-10-batches-bin/data_batch_3.bin",
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            ),
            (
                "cifar-10-batches-bin/data_batch_4.bin",
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            ),
            (
                "cifar-10-batches-bin/data_batch_5.bin",
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            ),
            ("cifar-10-batches-bin/test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
        ],
    }),
};

/// Fashion-MNIST (Xiao et al. 2017, MIT licence): the authors' server, then their repository.
static FASHION_MNIST: NamedData = NamedData {
    name: "fashion-mnist",
    what: "Fashion-MNIST: 70,000 grey images of 28 x 28 in 10 classes",
    place: "fashion-mnist",
    files: &[
        PublishedFile {
            path: "fashion-mnist/t10k-labels-idx1-ubyte.gz",
            addresses: &[
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/t10k-labels-idx1-ubyte.gz",
            ],
            bytes: 5_148,
            sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        PublishedFile {
            path: "fashion-mnist/train-labels-idx1-ubyte.gz",
            addresses: &[
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/train-labels-idx1-ubyte.gz",
            ],
            bytes: 29_515,
            sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        },
        PublishedFile {
            path: "fashion-mnist/t10k-images-idx3-ubyte.gz",
            addresses: &[
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/t10k-images-idx3-ubyte.gz",
            ],
            bytes: 4_422_102,
            sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        },
        PublishedFile {
            path: "fashion-mnist/train-images-idx3-ubyte.gz",
            addresses: &[
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/train-images-idx3-ubyte.gz",
            ],
            bytes: 26_421_880,
            sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        },
    ],
    instead: None,
};

/// MNIST (LeCun et al. 1998), from the mirrors that torchvision and TensorFlow Datasets use.
static MNIST: NamedData = NamedData {
    name: "mnist",
    what: "MNIST: 70,000 grey images of 28 x 28 in 10 classes",
    place: "mnist",
    files: &[
        PublishedFile {
            path: "mnist/t10k-labels-idx1-ubyte.gz",
            addresses: &[
                "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz",
            ],
            bytes: 4_542,
            sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        PublishedFile {
            path: "mnist/train-labels-idx1-ubyte.gz",
            addresses: &[
                "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
            ],
            bytes: 28_881,
            sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        },
        PublishedFile {
            path: "mnist/t10k-images-idx3-ubyte.gz",
            addresses: &[
                "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz",
            ],
            bytes: 1_648_877,
            sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        },
        PublishedFile {
            path: "mnist/train-images-idx3-ubyte.gz",
            addresses: &[
                "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
            ],
            bytes: 9_912_422,
            sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        },
    ],
    instead: None,
};

/// Inception-v3 of 2015-12-05, which FID is defined by, as pytorch-fid publishes it; read without executing anything in it.
pub static FID_INCEPTION: NamedData = NamedData {
    name: "fid-inception",
    what: "the Inception network of FID and KID",
    place: "pt_inception-2015-12-05-6726825d.pth",
    files: &[PublishedFile {
        path: "pt_inception-2015-12-05-6726825d.pth",
        addresses: &[
            "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/pt_inception-2015-12-05-6726825d.pth",
        ],
        bytes: 95_628_359,
        sha256: "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
    }],
    instead: Some(OtherForm {
        place: "inception-2015-12-05.safetensors",
        files: &[(
            "inception-2015-12-05.safetensors",
            "8560f9a1fda10ad9a32f0cafcc4dd67b415ca4f79aeff155cf17a95dba356c81",
        )],
    }),
};
