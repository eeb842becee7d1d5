// Package podwright has the types that all its packages share: Explanation, the result of
// each Explain method, and EventFunc, the callback for Kubernetes events. It is the root of
// a library of node-agent building blocks: the kubelet's lifecycle machinery, cut into
// packages that are used one at a time.
//
//   - podworkers: one worker per pod, the lifecycle state machine
//   - syncloop, syncloop/podsource: from pod sources to workers
//   - pleg, pleg/observed: the pods that the runtime has, and their types
//   - status, status/writer: from observed and desired to a v1.PodStatus, and where it goes
//   - cri, cri/pods, cri/images, cri/logs: pods on a CRI runtime
//   - cri/fake: a runtime in memory; cri/embedded: with containers as host processes
//   - cri/kubeletapi: what kubectl logs, exec, attach and port-forward end at, as an http.Handler
//   - cri/streams: sessions of exec, attach and port-forward, a module of its own
//
// It imports no other package of the module. Examples that run: Example in
// example_test.go and ExampleExplanation in explanation_test.go.
package podwright
