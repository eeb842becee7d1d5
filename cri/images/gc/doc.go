// Package gc removes images that nobody uses, when the disk fills up and, if asked
// to, when they have not been used for long.
//
//	m, err := gc.New(gc.Config{Images: imageService, Containers: runtimeService})
//	...
//	err = m.Run(ctx) // blocks until ctx ends
//
// # What is removed, and when
//
// Every five minutes the disk of the images is looked at. From Policy.HighPercent on
// (85), images are removed until usage is down to Policy.LowPercent (80), the ones
// whose last use lies furthest back first. With Policy.MaxAge, those that have not been
// used for that long are removed in any case. Manager.RemoveUnused, for a node that is
// under disk pressure, removes all that it may.
//
// # What is never removed
//
//   - The image of a container, be it running or not, as long as the runtime knows it.
//   - An image that a container has mounted as a volume, whatever its tag means by now.
//   - What Config.InUse names: what is about to be used.
//   - Images that the runtime has pinned, the one that it says its sandboxes are made
//     of, which older runtimes do not pin, and those of Config.Keep.
//   - Images that were first seen less than Policy.MinAge ago (2 minutes), so that one
//     is not removed between its pull and its container. Those that are there when the
//     Manager starts are as old as can be.
//   - Anything, while it is not known what is in use.
//
// # The pure part
//
// Compute decides, from a list of images with their times and the size of the disk,
// what may be removed in which order and how much is to be freed. It has no clock and
// no runtime. Manager owns the rest: it keeps the times in memory and begins anew with
// each start.
//
// Examples that run: ExampleCompute and ExampleManager_Collect in example_test.go.
package gc
