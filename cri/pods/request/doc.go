// Package request builds a container runtime's requests for a pod: the configuration of its
// sandbox and of its containers (CRI's PodSandboxConfig and ContainerConfig).
//
//	b, err := request.New(request.Config{
//		Node:   request.Node{Name: "node-1", MemoryCapacity: 8 << 30, CgroupV2: true},
//		Inputs: request.Inputs{ConfigMaps: cache, Secrets: cache, Volumes: volumes},
//	})
//	sandbox, err := b.Sandbox(pod, attempt)
//	container, err := b.Container(ctx, request.Instance{Pod: pod, Container: c, Image: image, PodIPs: ips})
//
// A Builder is safe for concurrent use.
//
// # Input
//
// A request has three sources. The pod has the requirements. Config.Node and Config.DNS describe
// the node, such as its addresses, cgroup version and huge page sizes. Config.Inputs are small
// interfaces and functions for config maps, secrets, services, volumes, sub paths and devices.
// All inputs are optional: a container that needs a missing input fails with an error of its own,
// and no other container is affected. Memory implements the interfaces for tests, and for agents
// without an API server.
//
// # Output
//
// The requests equal an upstream kubelet's in labels, annotations, hash, log paths, security and
// resources, so that an agent and a kubelet can take over each other's pods. The output is
// deterministic: equal input gives equal bytes, also where upstream's order is random, such as in
// variables. The test of package pods that compares with recordings of an upstream kubelet lists
// each deliberate difference with its reason.
//
// A Builder calls only the Inputs and writes no files. The caller makes the log directory and the
// mounted files: the hosts file (Builder.Hosts returns its content) and the termination message
// file. Only SubPaths.Prepare has an effect, which Container reverts when it returns an error.
//
// # Errors
//
// Errors name the field of the container's spec and reveal no details of the node. A kubelet
// shows them with the reason CreateContainerConfigError. An optional config map, secret or key
// that does not exist gives no variable; a failure to read it is an error.
//
// # User namespaces
//
// For user namespaces (KEP-127), IDs allocates ID ranges in memory. Write UserNamespace.Encode to
// a file before the pod uses its range.
//
// See Example, ExampleBuilder_Container_missing, ExampleIDs and ExampleServiceEnv in
// example_test.go.
//
// Unstable: a part of package pods that changes with each version of the kubelet.
package request
