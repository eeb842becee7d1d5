// Package request builds what a container runtime is asked for: from a pod, the
// configuration of its sandbox and of each of its containers. It makes no call
// and writes nothing: what it must know of the outside comes with its Config.
package request
