// Package podwright has the types that all its packages share: Explanation, the result of each
// Explain method, Reason, the reason of a state, and EventFunc, the callback for Kubernetes
// events. It is the root of a library of node-agent building blocks: the kubelet's lifecycle
// machinery, divided into packages that are usable separately.
//
//   - podworkers: one worker per pod, the lifecycle state machine
//   - syncloop, syncloop/podsource: from pod sources to workers
//   - pleg, pleg/observed: the actual pods of the runtime, and their types
//   - probe, probe/exec, probe/httpget and others: probes of containers, and their results
//   - status, status/writer: from observed and desired state to a v1.PodStatus, and its delivery
//   - volume, volume/manager: the plugins of volumes, and their mounts for pods
//   - cri, cri/pods, cri/images, cri/logs: pods on a CRI runtime
//   - cri/fake: an in-memory runtime; cri/embedded: containers as host processes
//   - cri/kubeletapi: an http.Handler for kubectl logs, exec, attach and port-forward
//   - cri/streams: sessions of exec, attach and port-forward, in a separate module
//
// It imports no other package of the module. See Example in example_test.go and
// ExampleExplanation in explanation_test.go.
package podwright
