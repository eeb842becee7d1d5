// Package records remembers with which credentials the images on the node were
// pulled, so that a pod cannot use a private image merely because another pod has
// pulled it before (KEP-2535).
//
// # The files
//
// Records lie in the folder that the kubelet uses, in its form, so that either can
// take over from the other:
//
//	image_manager/pulling/sha256-<hex>    an ImagePullIntent: this image is being pulled
//	image_manager/pulled/sha256-<hex>     an ImagePulledRecord: who pulled what this image ID names
//	image_manager/preloaded/sha256-<hex>  names that an image had before anybody pulled it
//
// The last folder is this package's own. Without it, pulling one name of an image
// would close its other names, under which it had been brought with the node, to
// every pod that cannot authenticate.
//
// # The life of a pull
//
//	store.Begin("registry.example.com/app:v1", before) // the intent
//	...                                               // the runtime pulls
//	store.Pulled(pull)                                 // the record; the intent goes
//	store.Failed("registry.example.com/app:v1", false) // or this
//
// Begin comes before the pull, and the record before the end of the intent. So
// whatever moment the agent is killed at, an image that it may have pulled is never
// taken for one that was there before: an intent alone means that pods must show
// that they may have it.
//
// A pull that was called off, or whose end nobody saw, may still succeed in the
// runtime. Its intent stays in doubt for ten minutes; Tidy records the image if it
// turns up.
//
// # The caller's duties
//
// One Store per folder. Tidy is to be called after the start and then every few
// minutes with a list of all images; it fits gc.Config.OnList. Verify is asked before an image
// that is present is used without a pull.
//
// An example that runs: Example in example_test.go.
package records
