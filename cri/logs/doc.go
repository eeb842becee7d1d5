// Package logs reads, follows and rotates the log files that a container runtime
// writes: the CRI format, one line per write with a timestamp, a stream and tags
// in front. A log with JSON lines of docker is refused with an error that wraps
// ErrDockerLine and contains the name of the file.
//
// # Reading
//
// A Reader writes what a container wrote to two writers, the part of it that
// Options ask for. They are those of kubectl logs:
//
//	reader, err := logs.NewReader(logs.ReaderConfig{States: logs.RuntimeStates(runtime)})
//	...
//	log := logs.Log{Path: status.LogPath, ContainerID: status.Id}
//	err = reader.Read(ctx, log, logs.Options{Follow: true, Timestamps: true}, stdout, stderr)
//
// Which instance of a container a request means is told by Instances.Choose. Tail
// returns the text of the last lines of a file, which is what becomes of a
// container's termination message when the container left none of its own.
// ParseLine takes a single line apart.
//
// # Following
//
// With Options.Follow, Read goes on until the container has stopped. All followers of a
// Reader share one poller, which runs only while there are followers; an idle follower
// holds an open file and no buffer. The poller receives changes from one inotify
// instance. Once a second it looks at logs that inotify does not watch, for instance
// because the user has too many watches, and requests the states of all containers
// together. The state of one container is requested when its log is closed, so a
// follower ends right after its container.
//
// After a rotation a follower stays with the old file until it is not open for
// writing any more, since lines may still arrive there when the new one is begun. It
// reads that file to its last line, and continues in the next one, so that no line is
// lost or doubled. Compressed files are not read: a follower that is a rotation behind
// when a file is compressed or removed misses that file, and a warning reports it.
// Files rotated before the call are not read, as with upstream kubelets (#59902); the
// newest uncompressed one stands in for a log that is missing, as it is in the middle
// of a rotation.
//
// # Rotating
//
// A Rotator looks at the logs of running containers once in ten seconds and
// rotates those that have grown too large: old files beyond MaxFiles are removed,
// others are compressed, N.log becomes N.log.20060102-150405, and the runtime is
// told to reopen it. Its only memory is the names of the files, those of upstream
// kubelets, so that it can be killed at any point, and take turns with an upstream
// kubelet:
//
//   - killed while compressing: the unfinished file is removed next time; the
//     uncompressed one is removed only once the other is complete on the disk;
//   - killed between rename and reopen: the log is missing, so the next rotator
//     has it reopened, whatever its size;
//   - the runtime cannot reopen: the log gets its name back. If the runtime has
//     begun a new file all the same, that stays, and if it still writes to the
//     old one, it is told again.
//
// # What the caller does
//
// Run of a Rotator is the caller's goroutine; a Reader runs during calls of Read only. One Rotator rotates for one runtime. The package does not remove logs
// of containers that are removed, and makes no links in /var/log/containers.
//
// Examples that run: ExampleTail, ExampleParseLine, ExampleReader_Read,
// ExampleRotator and ExampleInstances_Choose in example_test.go.
package logs
