// Package records stores the credentials of image pulls, so that a pod cannot use a private image
// only because another pod has pulled it (KEP-2535).
//
//	store.Begin("registry.example.com/app:v1", before) // writes the intent
//	...                                               // the runtime pulls
//	store.Pulled(pull)                                 // writes the record, removes the intent
//	store.Failed("registry.example.com/app:v1", false) // or this
//
// # The files
//
// Records are in the kubelet's folder and format, so that this package and a kubelet can
// replace each other:
//
//	image_manager/pulling/sha256-<hex>    an ImagePullIntent: this image is being pulled
//	image_manager/pulled/sha256-<hex>     an ImagePulledRecord: the credentials of the pulls of an image ID
//	image_manager/preloaded/sha256-<hex>  the names of an image before its first pull
//
// The last folder is this package's own. Without it, pulling one name of a preloaded image would
// close its other names to every pod that cannot authenticate.
//
// # Crashes
//
// Begin precedes the pull, and the record precedes the removal of the intent. So after a crash at
// any point, an image that the agent may have pulled never counts as preloaded: with an intent
// alone, pods must authenticate.
//
// A pull that was cancelled, or whose end was not seen, may still succeed in the runtime. Its
// intent stays in doubt for ten minutes; Tidy records the image if it appears.
//
// # Concurrency
//
// A Store is safe for concurrent use.
//
// # Duties of callers
//
// Use one Store per folder. Call Tidy after the start and then every few minutes with a list of
// all images; it suits gc.Config.OnList. Call Verify before using a present image without a pull.
//
// An example that runs: Example in example_test.go.
package records
