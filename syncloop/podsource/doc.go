// Package podsource brings the desired pods to a syncloop.Loop.
//
// A Merger keeps the newest complete set of pods of each source, and the Loop compares it
// with the set that it has handled. NewFileSource reads static pods from a folder,
// NewHTTPSource requests them from a web server, FromChannel and FromSeq take an
// importer's own sets; Merger.Set with Loop.Emit needs no source:
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
// # Ready
//
// A source is ready once a set of it has been handled, an empty one too; the
// Merger is ready once every registered source is. Until then nobody knows which
// pods should be there. So register only sources that are really configured, and
// all of them before the Loop runs.
//
// # Merging
//
// Sets are complete: the newest one counts, and each pod in it as a whole. The Loop
// compares pods by UID, as syncloop.Diff says. A pod whose name changes under its
// UID, which only manifests with a metadata.uid can do, is removed and added.
//
// Of several pods of one name or UID in a set the first is taken; the others are a
// FailedValidation event, once. Two sources do not know of each other.
//
// Each pod is annotated with its source (kubernetes.io/config.source) and the
// moment when it was first seen (kubernetes.io/config.seen). Pods are copied when they
// are handed in, and what is read is shared: nobody changes it.
//
// # Files
//
// Every entry of the folder is a manifest with one pod, YAML or JSON, whatever its
// name ends with; except names that begin with a dot, and "#name#". Sub-folders
// are not read. Links are followed. Each set follows from one look at the whole
// folder; inotify, where there is one, only prompts the look, and the period finds
// what inotify does not see, such as a change behind a link.
//
// A manifest that is bad, unreadable or larger than 10 MiB keeps its last good version
// running, also across a restart of the agent if there is a StateDir to keep it in; a file that is gone has its pod removed. What editors
// do on the way does not matter: a file that is being written is read once it is closed, a file
// that is moved aside for a moment is not gone, and a copy that appears for a
// moment does not take the pod over. A folder that vanishes is unknown, not empty: its
// pods go on for a period, unless its files were seen to be deleted, and a problem says
// so. The same holds for manifests that are not in another folder, or file, at its path:
// one that was mounted over it, or that a link leads to now; what is in there counts at once.
// One that is missing when the agent starts has no pods, and what an earlier agent
// left of them is killed. A folder that is there and cannot be listed is unknown for as
// long as that lasts. Of several files with the same pod, by name or by
// metadata.uid, the one that has it keeps it, also across a restart if there is a
// StateDir; of new ones the first by name counts. The others are refused: a problem and
// a FailedValidation event that name the field and both files. Everything that is
// wrong is logged once and listed by Problems.
//
// Only plain files are read, and no look waits for one: a file that does not answer in
// time, such as a link to a file server that is gone, is a problem with NoAnswer and
// an error of FileSource.CheckHealth; the others go on, and it counts when it answers.
//
// Files are not read again while inode, size and times say that they are the same.
// That is not believed of files that have just been written, of files that the
// watch names, nor for longer than a minute.
//
// Without metadata.uid a pod's UID follows from its manifest, the node and the
// path: any change makes it another pod, which begins when the old one has ended.
// With a metadata.uid a change is an update of the same pod.
//
// # A web server
//
// NewHTTPSource asks for a Pod or a PodList, at once and then every 20 s. An answer
// that is empty says that there are no pods; a failure, a status other than 200 and
// an answer with anything bad in it say nothing, and what ran goes on. A server
// that has not given a good answer since the start leaves its source unready. The
// UID of a pod without metadata.uid follows from the pod and the URL alone, so it is
// the same on all nodes; its name is not.
//
// # One's own pods
//
// FromChannel takes sets from a channel, FromSeq from an iterator; an iterator can
// say that it has failed, and is then begun anew. Both are sources of a Loop like
// the others. For a syncloop.PodSource that is no Merger, package eventsourcetest
// has a conformance suite.
//
// # What is checked
//
// Manifests are decoded strictly: unknown, misspelled and repeated fields are
// errors, also where a merge key brings one that is set beside it. What the API server
// would fill in is filled in here (the table is in defaults.go). A manifest of more than
// 262,144 values, or 10 MiB once its aliases are replaced, is not decoded at all. Then the following is
// refused, with the path of the field; the full validation of the API server it is not:
//
//   - metadata: a name that is missing or no DNS-1123 subdomain, also together with
//     the node's name; a namespace that is no DNS-1123 label; a UID that is not safe
//     as a folder name; labels and annotation keys that are not valid, labels or
//     annotations of more than 256 KiB; a deletion timestamp; the annotation of mirror pods;
//   - spec: unknown restartPolicy, dnsPolicy or os.name, dnsPolicy None without a
//     nameserver, a negative grace period, an active deadline below 1 or
//     above 2^31-1 seconds, the name of another node, hostname,
//     subdomain, hostAliases and dnsConfig that are not valid, shareProcessNamespace with
//     hostPID, ephemeral containers, user and group IDs out of range;
//   - containers: none; names that are no DNS-1123 labels or occur twice; no image,
//     or one with spaces; a terminationMessagePath with ".."; unknown imagePullPolicy, terminationMessagePolicy or
//     restartPolicy;
//   - ports: numbers out of range, unknown protocols, names that are not valid or
//     occur twice in a container, host ports that occur twice in the pod or differ
//     from the container port with hostNetwork;
//   - volumes: names that are no DNS-1123 labels or occur twice, two kinds in one,
//     kinds that are not in Decoder.Volumes, a hostPath that is not absolute or
//     contains "..", an unknown hostPath type or medium, a negative size limit; names of
//     objects, servers, paths and images that are missing or can be none, items that lead
//     out of the volume or name fields that no volume can have, paths that sources of one
//     projected volume name twice, modes above 0777, projected sources of no or of two kinds;
//   - mounts: of volumes that do not exist, at paths that are not absolute, contain ":" or
//     occur twice, sub-paths that are absolute or contain "..", Bidirectional propagation
//     without a privileged container;
//   - env: names that are missing or not valid, a value beside valueFrom, not
//     exactly one source, empty field paths and resources;
//   - probes and hooks: not exactly one action, an empty command, ports out of
//     range, numbers below their minimum, successThreshold above 1 for liveness and
//     startup, probes or hooks of init containers that are no sidecars;
//   - values that do not fit their fields, each named by its path; quantities that are
//     negative, or more than an int64 counts, in thousandths for cpu;
//   - resources: requests above limits;
//   - references to objects of the API server: service account, pull secrets,
//     secrets, config maps, claims, tokens, trust bundles and certificates in
//     volumes and environment, unless Decoder.Objects allows their kind.
//
// Examples that run: ExampleDecoder, ExampleMerger, ExampleNewFileSource,
// ExampleNewFileSource_virtualTime, ExampleNewHTTPSource, ExampleFromChannel and
// ExampleFromSeq in example_test.go.
package podsource
