// Package manager mounts the volumes of pods before their containers start, and unmounts them
// after the containers have stopped.
//
// A volume.Plugin implements one kind of volume. A volume.Spec describes one volume of one pod
// with resolved claims. A volume.Layout maps volumes to paths, equal for all kubelets, so that
// agents can take over each other's pods. A Manager calls the plugins.
//
//	pod ── Prepare ──▶ Manager ── Claims.Resolve ──▶ Spec
//	                     │
//	                     ├ Attachments ▶ Stager.Stage   once for all pods that share it
//	                     ├ Plugin.Mount ──▶ Mounted ──▶ the containers' mounts (Volume)
//	                     └ Resizes ▶ Expander.Expand ▶ Resizes
//	uid ── Release ──▶ SubPaths ▶ Plugin.Unmount ▶ folders      ... Stager.Unstage
//
// # Use
//
//	m, err := manager.New(manager.Config{Plugins: plugins, Layout: volume.Layout{Root: root}})
//	...
//	go m.Run(ctx)
//	stages.Entry{Name: "volumes", Release: stages.Stopped, Stage: m} // after the pod's folder
//	request.Inputs{Volumes: m}                                     // mounts of containers
//	m.Changed(volume.Object{Kind: "ConfigMap", Namespace: ns, Name: name}) // from a watch
//	m.Wake() // after all sources were read, and after volumes were attached
//	m.Retry(plugin) // after a dependency of a plugin appears, such as a driver
//
// An agent whose pods have only image volumes, or none, needs no Manager.
//
// # Guarantees
//
// Only Release unmounts a pod's volumes. A pod that is missing in a list, an unreadable claim
// or the end of Run does not. A shared volume is unstaged when no pod has it, in memory or on
// the disk, and all sources were read.
//
// Operations run concurrently. A blocked operation delays only its own volume and the
// operations that depend on it; Explain returns its start time. Prepare and Release wait while
// operations make progress. They then return the missing volumes, the reasons, and the time of
// the next attempt (NotReadyError). Before Run they wait, at most until ctx is done; after its
// end they return ErrEnded. The back-off grows from 0.5 s to 122 s, for the read of a claim to
// 15 s. The manager continues to retry and calls Config.OnReady when a pod can start.
//
// A mounted volume never prevents the start of a pod. It is refreshed at each Prepare
// (Remounter), when an object changes (Dependent), and at a time that it requests
// (Mounted.RefreshAt), at most sixteen volumes at a time. If a refresh fails, the containers
// keep the old content, and an event, Explain and the log report the error.
//
// A manager saves no state. At its start it lists the folders on the disk and treats each as a
// volume of uncertain state: Prepare mounts it again, Release unmounts it. It does not access
// the content of volumes and deletes only empty folders.
//
// # Plugins
//
// Package volume documents the interfaces of plugins. Package volumetest tests a plugin against
// all of their rules.
//
// # Design
//
// These files have plain data, without goroutines, clocks or I/O: desired_state.go has the
// volumes that pods use, actual_state.go the volumes of the node, reconstruction.go the volumes
// found on the disk. steps.go derives the next step of each pod and volume, reconciler.go
// collects the operations that begin, readiness.go decides when a caller's wait is over.
//
// The rest is the shell: manager.go owns the goroutines, executor.go performs operations,
// folders.go removes empty folders, stage.go and queries.go serve callers.
//
// Examples that run: Example mounts and unmounts a volume, ExampleNotReadyError shows the error
// for a volume that fails to mount, both in example_test.go.
package manager
