// Package request builds what a container runtime is asked for: from a pod, the
// configuration of its sandbox and of each of its containers (CRI's
// PodSandboxConfig and ContainerConfig).
//
//	b, err := request.New(request.Config{
//		Node:   request.Node{Name: "node-1", MemoryCapacity: 8 << 30, CgroupV2: true},
//		Inputs: request.Inputs{ConfigMaps: cache, Secrets: cache, Volumes: volumes},
//	})
//	sandbox, err := b.Sandbox(pod, attempt)
//	container, err := b.Container(ctx, request.Instance{Pod: pod, Container: c, Image: image, PodIPs: ips})
//
// # What goes in
//
// Everything comes from three places. The pod says what it wants. Config.Node and
// Config.DNS are data about the node: its addresses, its cgroup version, its sizes
// of huge pages. Config.Inputs are small interfaces and functions for what is kept
// elsewhere: config maps, secrets, services, volumes, sub paths, devices. All are
// optional: a container that asks for something for which there is no source is
// refused by an error of its own, and harms no other. Memory implements the
// interfaces for tests, and for agents that have no API server.
//
// # What comes out
//
// The same requests as an upstream kubelet's, so that either can take over the
// other's pods: labels, annotations, hash, log paths, security, resources. Where
// upstream leaves an order to chance, such as that of variables, this package has
// one; building the same thing twice gives the same bytes. What is built
// differently on purpose is listed, each with its reason, in the test of package
// pods that compares with recordings of an upstream kubelet.
//
// # What it does and what it does not
//
// Nothing is called but the Inputs, and nothing is written. The files that a
// container has mounted (the hosts file, whose content Builder.Hosts returns, and
// the termination message file) are the caller's to make, as is the log directory.
// SubPaths.Prepare is the one input with an effect: Container undoes it when it
// returns an error.
//
// Errors name the field of the container's spec, and hold nothing of the node that
// users must not see; they are what a kubelet shows with the reason
// CreateContainerConfigError. An optional config map, secret or key that does not
// exist leaves no variable. One of which that is not known, because reading it
// failed, is an error all the same.
//
// User namespaces (KEP-127) need somebody who gives out IDs: IDs does, in memory,
// and UserNamespace.Encode is what is to be written down before a pod uses them.
//
// Examples that run: Example, ExampleBuilder_Container_missing, ExampleIDs and
// ExampleServiceEnv in example_test.go.
package request
