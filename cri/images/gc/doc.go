// Package gc removes unused images when the disk fills up and, if configured, after a time without
// use.
//
//	m, err := gc.New(gc.Config{Images: imageService, Containers: runtimeService})
//	...
//	err = m.Run(ctx) // blocks until ctx ends
//
// # Removed images
//
// Every five minutes the Manager measures the disk of the images. When usage reaches
// Policy.HighPercent (85), it removes images until usage is at Policy.LowPercent (80), the least
// recently used first. With Policy.MaxAge it also removes images that were not used for that time.
// Manager.RemoveUnused removes all unused images, for a node under disk pressure.
//
// # Kept images
//
//   - Images of containers in the runtime, running or not.
//   - Images that a container has mounted as a volume, even if their tag has moved.
//   - Images in Config.InUse, which are about to be used.
//   - Pinned images, the runtime's sandbox image (older runtimes do not pin it), and those in
//     Config.Keep.
//   - Images first detected less than Policy.MinAge ago (2 min), so that an image is not removed
//     between its pull and its container. Images found at the Manager's start count as old.
//   - All images, while the images in use are unknown.
//
// # Concurrency and limits
//
// A Manager is safe for concurrent use, and its Run works once. Compute is the
// pure part: from a list of images with their times and the size of the disk, it computes the
// removable images, their order, and the number of bytes to free. The Manager keeps the times in
// memory, so they restart with each start. If another program removes the runtime's images, use no
// Manager.
//
// Examples that run: ExampleCompute and ExampleManager_Collect in example_test.go.
package gc
