// Package images makes sure that the image of a container or an image volume is on
// the node before it is used. It decides by the pull policy whether to pull, joins,
// orders and throttles pulls, holds back after failures, and names what went wrong
// with the waiting reasons that a pod's status shows.
//
// The smallest use:
//
//	m, err := images.New(images.Config{Service: imageService})
//	...
//	image, err := m.Ensure(ctx, images.Request{Pod: pod, Container: &pod.Spec.Containers[0]})
//	var failed *images.Error
//	if errors.As(err, &failed) {
//		// failed.Reason is the waiting reason, failed.NotBefore() the next try.
//	}
//
// Around it stand, each usable by itself: package imageref, which takes names apart;
// package credentials, which finds pull secrets, the node's own configuration and what
// plugins know; package records, which remembers who may use what was pulled; and
// package gc, which removes what nobody uses.
//
// # Whose turn it is
//
// Looking whether an image is present never waits for a pull of somebody else.
// Pulls wait in a queue; one runs at a time unless Config.MaxParallelPulls says
// otherwise. First come those for pods that run already (a container lost its image,
// or one was added), then what has waited for more than five minutes in the order of
// arrival, then the pods nearest to running, which lack the fewest images, then the
// order of arrival.
//
// Two requests for one image with the same credentials share one pull. With policy
// Always a tag is asked for anew: a request joins a pull that waits, and not one that has
// begun before it.
//
// Whoever waits or pulls can be called off through the context. The others who
// share the pull keep it; the last one ends it. A pull that was called off is no
// failure, leaves no trace in the backoff and returns the context's error instead of
// an Error.
//
// # Failures
//
// Every pod has its own backoff per image: one pod that lacks a credential does
// not hold back another that has it. A failing pull returns ErrImagePull (or the
// runtime's own RegistryUnavailable, SignatureValidationFailed); until the delay
// is over, Ensure answers ImagePullBackOff with the text of the last failure and
// asks no registry. An image that appears by then ends the wait, except with
// policy Always.
//
// # Why is this pod still waiting
//
// The CRI does not tell how far a pull has come. What can be known is told:
// Manager.Explain returns the images that a pod waits for, each with its place in the
// queue, its start, and its last failure. Manager.Pulls lists the pulls of all pods.
// Request.OnStep is called when a pull is waited for and when it begins.
//
// # The caller's duties
//
// Config.Credentials finds the credentials; without it every pull is anonymous. It is
// asked before the request waits for its turn. Config.Records makes pods show that they
// may use private images; without it every pod can use what is on the node.
// The container is to be created with Image.Ref, so that it runs exactly what
// was found or pulled here. Whoever collects garbage spares Manager.InUse.
//
// An example that runs: Example in example_test.go.
package images
