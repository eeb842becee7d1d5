// Package images makes sure that a container's image is on the node before the
// container is created. It decides by the pull policy whether to pull, queues
// and throttles pulls, holds back after failures, and names what went wrong
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
// # Whose turn it is
//
// Looking whether an image is present never waits for a pull of somebody else.
// Only pulls queue: one at a time unless Config.MaxParallelPulls says otherwise,
// first come, first served. Whoever waits or pulls can be called off through the
// context; a pull that was called off is no failure, leaves no trace in the
// backoff and returns the context's error instead of an Error.
//
// # Failures
//
// Every pod has its own backoff per image: one pod that lacks a credential does
// not hold back another that has it. A failing pull returns ErrImagePull (or the
// runtime's own RegistryUnavailable, SignatureValidationFailed); until the delay
// is over, Ensure answers ImagePullBackOff with the text of the last failure and
// asks no registry. An image that appears meanwhile ends the wait, except with
// policy Always.
//
// # The caller's duties
//
// Config.Credentials finds the credentials; without it every pull is anonymous.
// NewNodeConfig finds those in the node's docker configuration, and a Keyring
// those in any other.
// The container is to be created with Image.Ref, so that it runs exactly what
// was found or pulled here. The package keeps no record of who pulled what with
// which credential, and removes no images.
package images
