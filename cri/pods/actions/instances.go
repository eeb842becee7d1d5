package actions

import (
	"github.com/podwright/podwright/pleg/observed"
)

// here tells whether an instance lives in the current sandbox. One whose sandbox
// nobody knows counts as being there.
func (d *decision) here(s *observed.Container) bool {
	return s.SandboxID == "" || s.SandboxID == d.out.SandboxID
}

// currentHere returns the instance that stands for a container in the current
// sandbox: the one that runs, whatever clocks say, else the newest; nil when the
// container has none there.
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

// current is currentHere, or what an earlier sandbox has left of the container.
func (d *decision) current(name string) *observed.Container {
	if s := d.currentHere(name); s != nil {
		return s
	}
	return d.in.Status.Newest(name)
}

// sweep clears away instances of a container beside the one that stands for it.
// They are left over from an agent that died between creating and starting, that
// lost the answer of a call, or from an earlier sandbox.
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

// prune keeps of each init container the newest exited or unknown instance, and
// drops the exited ones before it: they would pile up while it crashes.
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

// mayStillRun tells whether an instance has to be stopped before another starts.
func mayStillRun(s *observed.Container) bool {
	return s.State == observed.StateRunning || s.State == observed.StateUnknown
}
