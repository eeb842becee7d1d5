// Package logs reads, follows and rotates the container logs that a CRI runtime writes: one line
// per write, with a timestamp, a stream and tags as prefix. Docker's JSON logs are refused with an
// error that wraps ErrDockerLine and contains the file name.
//
// # Reading
//
// A Reader writes a container's output to two writers. Options select a part of it, as in kubectl
// logs:
//
//	reader, err := logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime)})
//	...
//	log := logs.Log{Path: status.LogPath, ContainerID: status.Id}
//	err = reader.Read(ctx, log, logs.Options{Follow: true, Timestamps: true}, stdout, stderr)
//
// Instances.Choose returns the container instance that a request refers to. Tail returns the text
// of the last lines of a file, which replaces the termination message of a container that wrote
// none (FallbackToLogsOnError). ParseLine parses a single line.
//
// # Following
//
// With Options.Follow, Read continues until the container has stopped. All followers of a Reader
// share one poller, which runs only while there are followers; an idle follower has an open file
// and no buffer. The poller receives changes from one inotify instance. Once a second it checks
// logs that inotify does not watch, for instance because the user has too many watches, and
// requests the states of all containers in one call. When a log is closed, the follower requests
// the state of its container, so it ends right after its container.
//
// After a rotation a follower stays with the old file until no process has it open for writing,
// because lines may still arrive there after the new file was created. It reads the old file to
// its last line and continues in the next file, so no line is lost or duplicated. Compressed files
// are not read: a follower that is a rotation behind when a file is compressed or removed misses
// that file, and a warning reports it. Files rotated before the call are not read, as with
// upstream kubelets (#59902). In the middle of a rotation, when the log is missing, the newest
// uncompressed file replaces it. A truncated file is read again from its beginning.
//
// # Rotating
//
// A Rotator checks the logs of running containers every ten seconds and rotates those that are too
// large: it removes old files beyond MaxFiles, compresses others, renames N.log to
// N.log.20060102-150405, and makes the runtime reopen the log. Its only state is the file names,
// which equal upstream's. It can therefore be killed at any point, and alternate with an upstream
// kubelet:
//
//   - Killed while compressing: the next rotation removes the unfinished file. The uncompressed file
//     is removed only when the compressed one is complete on the disk.
//   - Killed between rename and reopen: the log is missing, so the next rotator makes the runtime
//     reopen it, independent of its size.
//   - The runtime fails to reopen: the rotator restores the log's name. If the runtime has created a
//     new file nevertheless, that file stays. If it still writes to the old one, the rotator repeats
//     the request.
//
// # Concurrency
//
// A Reader is safe for concurrent use; it has goroutines only during calls of Read. A Rotator
// works in Run, which the caller starts. Use one Rotator per runtime.
//
// # Limits
//
// The package neither removes logs of removed containers nor creates links in /var/log/containers.
// Package kubeletapi serves logs over HTTP. If another program rotates the logs, use no Rotator.
//
// Examples that run: ExampleTail, ExampleParseLine, ExampleReader_Read, ExampleRotator and
// ExampleInstances_Choose in example_test.go.
package logs
