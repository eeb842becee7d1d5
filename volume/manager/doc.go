// Package manager gives pods their volumes: mounted before their containers start,
// unmounted after they have stopped, and neither because something is not known yet.
//
// A Plugin knows one kind of volume (packages below this one, or your own). A Spec is
// one volume of one pod, claims resolved. A Layout says where things are on the disk,
// as every kubelet has it, so that agents can take over each other's pods. A Manager
// calls the plugins.
//
//	pod ── Prepare ──▶ Manager ── Claims.Resolve ──▶ Spec
//	                     │
//	                     ├ Attachments ▶ Stager.Stage   once for all pods that share it
//	                     ├ Plugin.Mount ──▶ Mounted ──▶ the containers' mounts (Volume)
//	                     └ Resizes ▶ Expander.Expand ▶ Resizes
//	uid ── Release ──▶ SubPaths ▶ Plugin.Unmount ▶ folders      ... Stager.Unstage
//
// # To use it
//
//	m, err := manager.New(manager.Config{Plugins: plugins, Layout: volume.Layout{Root: root}})
//	...
//	go m.Run(ctx)
//	stages.Entry{Name: "volumes", Release: stages.Stopped, Stage: m} // behind the pod's folder
//	request.Config{Volumes: m}                                     // what containers mount
//	m.Changed(volume.Object{Kind: "ConfigMap", Namespace: ns, Name: name}) // from whoever watches
//	m.Wake() // when all sources are read, and when volumes were attached
//	m.Retry(plugin) // when what a plugin has missed is there, as a driver
//
// # What it holds to
//
// A volume is unmounted for one reason only: Release was called for its pod. That a pod
// is in no list, that a claim cannot be read, that Run ends unmounts nothing. A shared
// volume is unstaged when no pod has it, known or on disk, and all sources were read.
//
// Every operation runs by itself. One that hangs holds its own volume and what has to
// come after it; Explain says since when. Prepare and Release wait for as long as
// something goes on, and then say what is missing, why, and when it is tried next
// (NotReadyError): tries are 0.5 s, 1 s, 2 s and at last 122 s apart, those of reading a
// claim 15 s. Meanwhile the manager goes on, and Config.OnReady tells when a pod can start.
//
// A volume that is mounted is never a reason not to start a pod. It is brought up to
// date at each Prepare (Remounter), when an object changes (Dependent), and when it says
// so (Mounted.RefreshAt), sixteen at a time. If that fails, containers go on with what
// is there; an event, Explain and the log tell.
//
// Nothing has to be saved. At its start a manager reads which folders there are, and
// takes each for a volume of which the state is uncertain: Prepare mounts it once more,
// Release unmounts it. It never looks into a volume, and never deletes more than empty
// folders.
//
// # To write a plugin
//
// Mount, Unmount and two methods that say which volumes are meant. Mount is called
// again and again and makes what is missing; Unmount gets no more than the names of
// things, since the agent that unmounts may not be the one that mounted, and may have
// no Spec any more. What more a plugin can do is an interface of its own that it
// implements too: Stager, Remounter, Dependent, Attachable, Expander, Owner,
// LabelMounter. Package volumetest tests a plugin against all that is said here.
//
// # How it is made
//
// Plain data, without goroutines, clocks or I/O: desired_state.go has the volumes that pods
// use, actual_state.go the volumes of the node, reconstruction.go the volumes found on the
// disk. steps.go derives the next step of each pod and volume, reconciler.go collects the
// operations that begin, readiness.go decides when a caller's wait is over.
//
// The shell: manager.go owns the goroutines, executor.go performs operations, folders.go
// removes empty folders, stage.go and queries.go serve callers.
//
// Examples that run: Example mounts a volume and takes it away, ExampleNotReadyError
// shows what is said of one that cannot be mounted, both in example_test.go.
package manager
