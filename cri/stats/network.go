package stats

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Network has the traffic of the network interfaces of a pod or a machine.
type Network struct {
	Time       time.Time
	Interfaces []Interface
}

// Interface has the traffic of one interface since it was made. A nil counter is unavailable.
type Interface struct {
	Name           string
	Received, Sent Traffic
	// Default is true for the interface with the pod's address, eth0.
	Default bool
}

// Traffic counts one direction.
type Traffic struct{ Bytes, Packets, Errors, Dropped *uint64 }

// defaultInterface is the name that network plugins give a pod's interface, and that Kubernetes
// expects.
const defaultInterface = "eth0"

// Find returns the default interface, or nil.
func (n *Network) Find() *Interface {
	if n == nil {
		return nil
	}
	for i := range n.Interfaces {
		if n.Interfaces[i].Default {
			return &n.Interfaces[i]
		}
	}
	return nil
}

// ReadNetwork reads the interfaces in the network namespace of a process, given by its ID or
// "self". It skips loopback and the machine's ends of pod links.
func ReadNetwork(proc fs.FS, process string) (*Network, error) {
	name := path.Join(process, "net/dev")
	n := &Network{Time: time.Now(), Interfaces: []Interface{}}
	text, err := fs.ReadFile(proc, name)
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		device, rest, ok := strings.Cut(line, ":")
		if !ok {
			continue // a headline
		}
		i := Interface{Name: strings.TrimSpace(device)}
		if isLocal(i.Name) {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 12 {
			return nil, fmt.Errorf("stats: %s: %s has %d numbers, want 12 or more", name, i.Name, len(fields))
		}
		numbers := make([]uint64, 12)
		for k := range numbers {
			if numbers[k], err = strconv.ParseUint(fields[k], 10, 64); err != nil {
				return nil, fmt.Errorf("stats: %s: %s: %q is not a number", name, i.Name, fields[k])
			}
		}
		i.Received, i.Sent, i.Default = traffic(numbers), traffic(numbers[8:]), i.Name == defaultInterface
		n.Interfaces = append(n.Interfaces, i)
	}
	return n, nil
}

// isLocal reports whether an interface's traffic is counted elsewhere: loopback and the machine's
// ends of pod links.
func isLocal(name string) bool {
	for _, prefix := range []string{"lo", "veth", "docker", "nerdctl"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// traffic converts bytes, packets, errors and drops, in the order of the file.
func traffic(n []uint64) Traffic {
	return Traffic{Bytes: new(n[0]), Packets: new(n[1]), Errors: new(n[2]), Dropped: new(n[3])}
}

// ownNetwork reports whether a process has a network namespace different from this process's. An
// error means that it is undetermined.
func ownNetwork(proc fs.FS, process string) (bool, error) {
	theirs, err := fs.ReadLink(proc, path.Join(process, "ns/net"))
	if err != nil {
		return false, err
	}
	ours, err := fs.ReadLink(proc, "self/ns/net")
	return ours != theirs, err
}
