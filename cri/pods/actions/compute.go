package actions

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// Compute returns the actions for a pod. It fails without Pod or Status, and if Status has
// another UID. It is pure.
func Compute(in Input) (Actions, error) {
	switch {
	case in.Pod == nil || in.Status == nil:
		return Actions{}, errors.New("actions: Input.Pod and Input.Status are required")
	case in.Status.UID != "" && in.Status.UID != in.Pod.UID:
		return Actions{}, fmt.Errorf("actions: Input.Status has the UID %q, Input.Pod has %q", in.Status.UID, in.Pod.UID)
	}
	all := in.Status
	var othersRun bool
	in.Status, othersRun = ownStatus(in.Pod, all)
	d := decision{in: in, deleted: in.Pod.DeletionTimestamp != nil}
	change := d.sandboxChange(all, othersRun)
	d.out.SandboxID, d.out.Attempt = change.ID, change.Attempt
	switch {
	case in.RestartAll && !d.deleted && d.reset():
	case change.Changed:
		d.out.KillPod = true
		d.replaceSandbox()
	default:
		d.keepSandbox()
	}
	if d.out.CreateSandbox && d.in.Actuated != nil && d.in.Actuated.Pod != nil {
		d.out.UpdatePodLevelResources = d.podLevelChanged()
	}
	d.resizeStopped()
	return d.out, nil
}

// decision is one call of Compute.
type decision struct {
	in      Input
	out     Actions
	deleted bool
}

// keepSandbox decides for a pod with a usable sandbox.
func (d *decision) keepSandbox() {
	d.strangers()
	d.ephemeral()
	initialised, before := d.initContainers()
	switch {
	case d.out.KillPod: // an init container has failed for good
	case initialised:
		d.regular()
	case before && d.regularDone():
		d.end("all containers have exited")
	}
	if d.out.KillPod {
		return
	}
	d.out.UpdatePodLevelResources = d.podLevelChanged()
	if d.deleted {
		d.explain("the pod is being deleted")
	}
}

// end ends the pod: running containers are stopped and none starts. Containers with a kill reason
// of their own keep it.
func (d *decision) end(why string) {
	d.out = Actions{
		KillPod: true, SandboxID: d.out.SandboxID, Attempt: d.out.Attempt,
		Kill: d.out.Kill, Explanation: why,
	}
}

// ephemeral starts the ephemeral containers that never ran, even before the pod is initialised.
// They run once.
func (d *decision) ephemeral() {
	for i := range d.in.Pod.Spec.EphemeralContainers {
		name := d.in.Pod.Spec.EphemeralContainers[i].Name
		current := d.current(name)
		d.sweep(name, current)
		switch {
		case d.deleted:
		case current == nil:
			d.out.StartEphemeral = append(d.out.StartEphemeral, i)
		case current.State == observed.StateCreated:
			d.out.Remove = append(d.out.Remove, *current)
			d.out.StartEphemeral = append(d.out.StartEphemeral, i)
		}
	}
}

// explain sets the explanation, unless an earlier one exists.
func (d *decision) explain(why string) {
	if d.out.Explanation == "" {
		d.out.Explanation = why
	}
}

// kill stops an instance. The message includes the restart, if there is one.
func (d *decision) kill(s *observed.Container, reason KillReason, message string, restarted bool) {
	if restarted {
		message += ", will be restarted"
	}
	d.out.Kill = append(d.out.Kill, ContainerKill{ID: s.ID, Name: s.Name, Reason: reason, Message: message})
}

func (d *decision) probed(c *observed.Container, t probe.Type) probe.Verdict {
	if len(d.in.Probes) == 0 {
		return probe.Unknown
	}
	return d.in.Probes.Of(c.ID.String(), t)
}
