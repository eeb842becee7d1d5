package plegtest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// queryCases are the rules about one answer of ListPods or PodStatus.
func queryCases() []testCase {
	return []testCase{
		{"a pod that does not exist is an empty status and no error", unknownPod},
		{"a pod that runs is listed once, and looks the same from near", runningPod},
		{"a container that has exited stays", exitedContainer},
		{"a new instance comes before the old one", newInstance},
		{"of a pod that is removed nothing is left", removedPod},
		{"what is done is seen by every query that begins later", readYourWrites},
	}
}

func unknownPod(ctx context.Context, p *trial) error {
	uid := p.newUID()
	s, err := p.status(ctx, uid)
	if err != nil {
		return err
	}
	if !s.Empty() {
		return fmt.Errorf("PodStatus shows %d sandboxes and %d containers of a pod that does not exist", len(s.Sandboxes), len(s.Containers))
	}
	o, err := p.listed(ctx, uid)
	if err == nil && o != nil {
		return fmt.Errorf("ListPods shows pod %s, which does not exist", uid)
	}
	return err
}

func runningPod(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	o, s, err := p.both(ctx, uid)
	if err != nil {
		return err
	}
	for _, c := range s.Containers {
		switch {
		case c.State != observed.StateRunning:
			return fmt.Errorf("container %q of a pod that was started is %s", c.Name, c.State)
		case c.ID.ID == "" || c.Name == "":
			return fmt.Errorf("a container has the ID %q and the name %q: both are required", c.ID, c.Name)
		case !c.FinishedAt.IsZero():
			return fmt.Errorf("container %q runs and has a FinishedAt", c.Name)
		}
	}
	return agree(o, s)
}

// agree checks that the list and a look, with nothing between them, show the same.
// If they do not, a PLEG looks again at every list.
func agree(o *observed.ListedPod, s *observed.Pod) error {
	near := s.Listed()
	if o.Name != s.Name || o.Namespace != s.Namespace {
		return fmt.Errorf("ListPods calls the pod %s/%s and PodStatus %s/%s", o.Namespace, o.Name, s.Namespace, s.Name)
	}
	if !slices.Equal(o.Containers, near.Containers) {
		return fmt.Errorf("ListPods shows the containers %v and PodStatus %v", o.Containers, near.Containers)
	}
	if !slices.Equal(o.Sandboxes, near.Sandboxes) {
		return fmt.Errorf("ListPods shows the sandboxes %v and PodStatus %v", o.Sandboxes, near.Sandboxes)
	}
	return nil
}

func exitedContainer(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	before, err := p.status(ctx, uid)
	if err != nil {
		return err
	}
	if err := p.exit(ctx, uid); err != nil {
		return err
	}
	o, s, err := p.both(ctx, uid)
	if err != nil {
		return err
	}
	if err := agree(o, s); err != nil {
		return err
	}
	for _, c := range before.Containers {
		now := containerIn(s, c.ID)
		switch {
		case now == nil:
			return fmt.Errorf("container %q is gone after its exit", c.Name)
		case now.State != observed.StateExited:
			return fmt.Errorf("container %q is %s after its exit", c.Name, now.State)
		case now.Name != c.Name:
			return fmt.Errorf("container %q is called %q after its exit", c.Name, now.Name)
		}
	}
	return nil
}

func containerIn(s *observed.Pod, id observed.ContainerID) *observed.Container {
	for i := range s.Containers {
		if s.Containers[i].ID == id {
			return &s.Containers[i]
		}
	}
	return nil
}

func newInstance(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	old, err := p.status(ctx, uid)
	if err != nil {
		return err
	}
	if err := p.exit(ctx, uid); err != nil {
		return err
	}
	if err := p.start(ctx, uid); err != nil {
		return err
	}
	o, s, err := p.both(ctx, uid)
	if err != nil {
		return err
	}
	for _, was := range old.Containers {
		c := s.Newest(was.Name)
		switch {
		case c == nil:
			return fmt.Errorf("there is no container %q after its restart", was.Name)
		case c.ID == was.ID:
			return fmt.Errorf("the newest instance of container %q is still %s: a new one has another ID and comes first", was.Name, c.ID)
		case c.State != observed.StateRunning:
			return fmt.Errorf("the newest instance of container %q is %s", was.Name, c.State)
		}
		i := slices.IndexFunc(o.Containers, func(x observed.ListedContainer) bool { return x.Name == was.Name })
		if i < 0 || o.Containers[i].ID != c.ID {
			return fmt.Errorf("ListPods does not show the newest instance of container %q first", was.Name)
		}
	}
	return nil
}

func removedPod(ctx context.Context, p *trial) error {
	uid, err := p.started(ctx)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, uid); err != nil {
		return err
	}
	return p.absent(ctx, uid)
}

func (p *trial) absent(ctx context.Context, uid types.UID) error {
	o, err := p.listed(ctx, uid)
	if err != nil {
		return err
	}
	if o != nil {
		return fmt.Errorf("ListPods shows pod %s, which was removed", uid)
	}
	s, err := p.status(ctx, uid)
	if err == nil && !s.Empty() {
		return fmt.Errorf("PodStatus shows %d sandboxes and %d containers of a pod that was removed", len(s.Sandboxes), len(s.Containers))
	}
	return err
}

// readYourWrites goes through the life of a pod several times, and asks after each
// step. An answer out of a cache of the runtime's adapter fails it.
func readYourWrites(ctx context.Context, p *trial) error {
	for range 3 {
		uid, err := p.started(ctx)
		if err != nil {
			return err
		}
		if err := p.all(ctx, uid, observed.StateRunning); err != nil {
			return err
		}
		if err := p.exit(ctx, uid); err != nil {
			return err
		}
		if err := p.all(ctx, uid, observed.StateExited); err != nil {
			return err
		}
		if err := p.remove(ctx, uid); err != nil {
			return err
		}
		if err := p.absent(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// all checks that the containers of a pod are in a state, for the list and a look.
func (p *trial) all(ctx context.Context, uid types.UID, want observed.State) error {
	o, s, err := p.both(ctx, uid)
	if err != nil {
		return err
	}
	for _, c := range o.Containers {
		if c.State != want {
			return fmt.Errorf("ListPods shows container %q as %s when it is %s", c.Name, c.State, want)
		}
	}
	for _, c := range s.Containers {
		if c.State != want {
			return fmt.Errorf("PodStatus shows container %q as %s when it is %s", c.Name, c.State, want)
		}
	}
	return nil
}
