// Package images provides the image of a container or an image volume before its use. It decides
// by the pull policy whether to pull, and shares, orders and throttles pulls. It backs off after
// failures, and reports failures as the waiting reasons of a pod's status.
//
//	m, err := images.New(images.Config{Service: imageService})
//	...
//	image, err := m.Ensure(ctx, images.Request{Pod: pod, Container: &pod.Spec.Containers[0]})
//	var failed *images.Error
//	if errors.As(err, &failed) {
//		// failed.Reason is the waiting reason, failed.NotBefore() the time of the next try.
//	}
//
// Related packages work alone: imageref parses image names; credentials finds credentials in pull
// secrets, the node's configuration and plugins; records stores which pods may use pulled images;
// gc removes unused images.
//
// # Order of pulls
//
// Inspecting an image never waits for a pull. Pulls wait in a queue; one runs at a time unless
// Config.MaxParallelPulls differs. The order is: pulls for running pods (a container lost its
// image or was added); pulls that have waited for more than five minutes, by arrival; pulls for
// the pods that lack the fewest images; then by arrival.
//
// Two requests for one image with the same credentials share a pull. With policy Always a tag must
// be resolved after the request: such a request joins a waiting pull, but not a running one.
//
// The context of Ensure cancels a waiting or running request; a pull has no other time limit. It
// ends only when all requests that share it are cancelled. A cancelled pull is no failure: it does
// not count for the back-off and returns the context's error instead of an Error.
//
// # Failures
//
// Each pod has its own back-off per image, so a pod without credentials does not delay a pod with
// them. It grows from 10 s to 5 min and starts anew ten minutes after the last failure. A failing
// pull returns ErrImagePull, or the runtime's RegistryUnavailable or SignatureValidationFailed.
// During the back-off, Ensure returns ImagePullBackOff with the text of the last failure and does
// not contact a registry. An image that appears meanwhile ends the back-off, except with policy
// Always. Failures without a pull have no back-off: ErrImageNeverPull (policy Never, and the image
// is absent or not permitted), InvalidImageName, and ImageInspectError from the runtime.
//
// # Explanations
//
// The CRI does not report the progress of a pull. Manager.Explain returns the images that a pod
// waits for, each with its position in the queue, its start and its last failure. Manager.Pulls
// lists the pulls of all pods. Request.OnStep is called when a request starts to wait for a pull
// and when the pull begins.
//
// # Concurrency
//
// A Manager is safe for concurrent use.
//
// # Duties of callers
//
// Set Config.Credentials to find credentials, which happens before a request enters the queue;
// without it every pull is anonymous. Set Config.Records to verify access to private images;
// without it every pod can use each present image. Create the container with Image.Ref, so that it
// runs exactly the image found or pulled here. Image garbage collection must keep Manager.InUse.
//
// To pull an image outside of pods, call cri.ImageService directly.
//
// An example that runs: Example in example_test.go.
package images
