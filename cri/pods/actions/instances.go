package actions

import (
	"github.com/podwright/podwright/pleg/observed"
)

// here reports whether an instance is in the current sandbox. An instance without a sandbox ID
// counts as in it.
func (d *decision) here(s *observed.Container) bool {
	return s.SandboxID == "" || s.SandboxID == d.out.SandboxID
}

// currentHere returns the current instance of a container in the current sandbox: the running
// one, or else the newest, or nil.
func (d *decision) currentHere(name string) *observed.Container {
	var newest *observed.Container
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		if s.Name != name || !d.here(s) {
			continue
		}
		if s.State == observed.StateRunning {
			return s
		}
		if newest == nil {
			newest = s
		}
	}
	return newest
}

// current returns currentHere, or else the newest instance of an earlier sandbox.
func (d *decision) current(name string) *observed.Container {
	if s := d.currentHere(name); s != nil {
		return s
	}
	return d.in.Status.Newest(name)
}

// sweep stops or removes all instances of a container except the current one. They remain from an
// earlier sandbox, from an agent that died between create and start, or from a call whose
// response was lost.
func (d *decision) sweep(name string, current *observed.Container) {
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		if s == current || s.Name != name {
			continue
		}
		switch {
		case mayStillRun(s):
			d.kill(s, "", "Container "+name+" has another instance", false)
		case s.State == observed.StateCreated:
			d.out.Remove = append(d.out.Remove, *s)
		}
	}
}

// prune keeps the newest exited or unknown instance of an init container and removes older exited
// ones, so that they do not accumulate while it crashes.
func (d *decision) prune(name string) {
	kept := false
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		if s.Name != name || s.State != observed.StateExited && s.State != observed.StateUnknown {
			continue
		}
		if kept && s.State == observed.StateExited {
			d.out.PruneInit = append(d.out.PruneInit, *s)
		}
		kept = true
	}
}

// mayStillRun reports whether an instance must be stopped before another starts.
func mayStillRun(s *observed.Container) bool {
	return s.State == observed.StateRunning || s.State == observed.StateUnknown
}
