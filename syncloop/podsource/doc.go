// Package podsource provides the desired pods of a syncloop.Loop.
//
// A Merger keeps the newest complete set of pods of each source; the Loop compares it with the
// handled set. NewFileSource reads static pods from a folder, NewHTTPSource from a web server.
// FromChannel and FromSeq receive sets from the importer. Merger.Set with Loop.Emit works without
// a source:
//
//	merger, err := podsource.NewMerger(podsource.MergerConfig{})
//	files, err := podsource.NewFileSource(podsource.FileConfig{
//		Path:    "/etc/kubernetes/manifests",
//		Merger:  merger,
//		Decoder: podsource.Decoder{NodeName: "node-1"},
//	})
//	loop, err := syncloop.New(syncloop.Config{
//		Handler: handler,
//		Pods:    merger,
//		Sources: map[string]syncloop.EventSource{"file": files},
//	})
//
// # Readiness
//
// A source is ready after one of its sets, possibly empty, has been handled. The Merger is ready
// when every registered source is. Until then the desired pods are incomplete. So register only
// sources that are configured, and register all of them before the Loop runs. With
// syncloop.HandlerConfig.PerSource the pods of a ready source do not wait for other sources.
//
// A Saved keeps the sets of a source on the disk, so that a node whose control plane is unreachable
// starts its pods after a restart.
//
// # Merging
//
// Sets are complete: the newest set replaces the previous one. The Loop compares pods by UID (see
// syncloop.Diff). A pod whose name changes under its UID, which is possible only for manifests
// with a metadata.uid, is removed and added.
//
// Of several pods with one name or UID in a set the first is used. A UID belongs to the first source
// that has it, until that source's pod was removed; pods of other sources with it are ignored
// meanwhile, so that two pods never share a worker or a folder. Pods with names that cannot be parts
// of paths are ignored from every source: a UID, namespace, name, container or volume that the API
// server would refuse. Each ignored pod causes one FailedValidation event. Otherwise sources are
// independent of each other.
//
// Each pod is annotated with its source (kubernetes.io/config.source) and the time when it was
// first seen (kubernetes.io/config.seen). The Merger copies the pods that it receives. The pods
// that it returns are shared and must not be changed.
//
// # Files
//
// Each entry of the folder is a manifest with one pod, YAML or JSON, with any file extension.
// Names that begin with a dot, and "#name#", are ignored. Sub-folders are not read. Links are
// followed. Each set comes from one scan of the whole folder. inotify, where available, triggers
// scans early; the periodic scan finds changes that inotify misses, such as one behind a link.
//
// A manifest that is invalid, unreadable or larger than 10 MiB keeps its last good version
// running, with a StateDir also across a restart of the agent. A deleted file removes its pod, and
// so does a link whose target was deleted; the link is also a problem. If inotify reports the
// deletion of a file that is written again at once, the pod ends and starts again.
// Intermediate states of editors have no effect: a file that is being written is read after it is
// closed, a file that is moved away briefly is not removed, and a temporary copy does not take the
// pod over.
//
// The pods of a vanished folder continue for one period, unless its files were seen to be deleted,
// and Problems lists the folder. If another folder or file appears at the path, through a mount or
// a changed link, its manifests are used at once, and the pods of missing manifests continue for
// one period, too. A folder that is missing when the agent starts has no pods, and leftovers of an
// earlier agent are killed. A folder that exists but cannot be listed yields no set: its pods
// continue, and after a start of the agent the source is not ready.
//
// Of several files with the same pod, by name or by metadata.uid, the present owner keeps it, with
// a StateDir also across a restart. Of new files the first by name is used. The others are refused
// with a problem and a FailedValidation event that name the field and both files. Each problem is
// logged once and listed by Problems.
//
// Only regular files are read, and no scan waits for one. A file that does not respond, such as a
// link to an unreachable file server, is a problem with NoAnswer and an error of
// FileSource.CheckHealth. Other files are not affected, and the file is used as soon as it can be
// read.
//
// A file is not read again while inode, size and times are unchanged. This does not apply to files
// that were just written or that inotify reports, and all files are read once per minute.
//
// Without metadata.uid the UID of a pod is derived from its manifest, the node and the path. Any
// change then makes another pod, which starts after the old one has ended. With a metadata.uid a
// change is an update of the same pod. Decoder.UID replaces the derived UID.
//
// # Web server
//
// NewHTTPSource requests a Pod or a PodList at once and then every 20 s. An empty reply means that
// there are no pods. After a failed request, a status other than 200, or a reply with an invalid
// pod, the previous set stays in force. Until the first valid reply the source is not ready. The
// UID of a pod without metadata.uid is derived from the pod and the URL only, so it is the same on
// all nodes; its name contains the node's name.
//
// # Custom sources
//
// FromChannel reads sets from a channel, FromSeq from an iterator. An iterator can report a failure
// and is then restarted. Both return event sources for a Loop. Pods that the Merger ignores are
// logged and do not end them. The pods of an API server come from a source of the agent, such as
// examples/kubelet/apiserver/pods, which calls Merger.SetConstant. An agent can implement
// syncloop.PodSource without this package; package eventsourcetest has a conformance suite for it.
//
// # Validation
//
// Manifests are decoded strictly: unknown, misspelled and repeated fields are errors. The fields of
// a merge key (<<) give way to the object's own fields, also to those before the merge key, as in
// YAML 1.1; the upstream kubelet lets the later of the two win. The conversions and defaults of the
// API server are applied (the tables are in defaults.go): a negative grace period becomes 1 s.
// A manifest of more than 262,144 values, or 10 MiB with expanded aliases, is not decoded. The
// following is refused, with the path of the field. This is a part of the API server's validation:
//
//   - metadata: a name that is missing or no DNS-1123 subdomain, also together with
//     the node's name; a namespace that is no DNS-1123 label; a UID that is unsafe
//     as a folder name; invalid labels and annotation keys; labels or annotations of
//     more than 256 KiB; a deletion timestamp; the annotation of mirror pods;
//   - spec: unknown restartPolicy, dnsPolicy or os.name; dnsPolicy None without a
//     nameserver; an active deadline below 1 or above 2^31-1 seconds; the name of another node; invalid hostname,
//     subdomain, hostAliases and dnsConfig; shareProcessNamespace with
//     hostPID; ephemeral containers; user and group IDs out of range;
//   - containers: no container; names that are no DNS-1123 labels or occur twice; no image,
//     or one with spaces; a terminationMessagePath with ".."; unknown imagePullPolicy,
//     terminationMessagePolicy or restartPolicy;
//   - ports: numbers out of range, unknown protocols, names that are invalid or
//     occur twice in a container, host ports that occur twice in the pod or differ
//     from the container port with hostNetwork;
//   - volumes: names that are no DNS-1123 labels or occur twice; two kinds in one;
//     kinds that are not in Decoder.Volumes; a hostPath that is not absolute or
//     contains ".."; an unknown hostPath type or medium; a negative size limit; names of
//     objects, servers, paths and images that are missing or invalid; items that lead
//     out of the volume or name unavailable fields; paths that occur twice in one
//     projected volume; modes above 0777; projected sources of no or of two kinds;
//   - mounts: of volumes that do not exist, at paths that are not absolute, contain ":" or
//     occur twice; sub-paths that are absolute or contain ".."; Bidirectional propagation
//     without a privileged container;
//   - env: names that are missing or invalid, a value beside valueFrom, not
//     exactly one source, empty field paths and resources;
//   - probes and hooks: not exactly one action, an empty command, ports out of
//     range, numbers below their minimum, successThreshold above 1 for liveness and
//     startup, probes or hooks of init containers that are no sidecars;
//   - values that do not fit their fields; quantities that are negative or, in
//     thousandths for cpu, exceed an int64;
//   - resources: requests above limits;
//   - references to objects of the API server: service account, pull secrets,
//     secrets, config maps, claims, tokens, trust bundles and certificates in
//     volumes and environment, unless Decoder.Objects allows their kind.
//
// Runnable examples in example_test.go: ExampleDecoder, ExampleMerger, ExampleNewFileSource,
// ExampleNewFileSource_virtualTime, ExampleNewHTTPSource, ExampleFromChannel, ExampleFromSeq and ExampleNewSaved.
package podsource
