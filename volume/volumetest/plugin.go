package volumetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
)

// Call is a call of a method of a Plugin.
type Call struct {
	// Method is "Mount", "Unmount", "Expand", "Stage", "Unstage" or "Staged".
	Method string
	// Pod is the pod's UID; empty for Stage, Unstage and Staged.
	Pod types.UID
	// Volume is Spec.Name, or the ID of a shared volume.
	Volume string
	// Again and Found are those of volume.Mount.
	Again, Found bool
	// Began is when it was called.
	Began time.Time
}

// Plugin is a volume.Plugin that does nothing but make folders: <Dir>/content holds what
// Content says. What it knows is on disk, so another one may go on from there. Set its
// fields before use. It is safe for concurrent use.
type Plugin struct {
	// PluginName is its name. Empty means "example.com/memory".
	PluginName string
	// Takes tells which volumes it supports. Nil means all.
	Takes func(*volume.Spec) bool
	// Latency is how long each call takes. Zero means no time.
	Latency time.Duration
	// Fault is asked at the begin of each call that has a context. Its error is that of
	// the call, which then does nothing; while it does not return, the call hangs. Nil
	// means that nothing fails.
	Fault func(context.Context, Call) error
	// Content is what a volume of a pod has. Nil means nothing.
	Content func(context.Context, volume.Mount) (string, error)
	// Refresh is what Remounts says.
	Refresh bool
	// DependsOn is what Objects says. Nil means none.
	DependsOn func(*v1.Pod, *volume.Spec) []volume.Object
	// RefreshAt is what Mounted.RefreshAt says. Nil means never.
	RefreshAt func() time.Time

	mu    sync.Mutex
	calls []Call
}

var (
	_ volume.Plugin    = (*Plugin)(nil)
	_ volume.Remounter = (*Plugin)(nil)
	_ volume.Dependent = (*Plugin)(nil)
)

// Calls are those so far, in the order of their beginning.
func (p *Plugin) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Count is how many calls of a method there were.
func (p *Plugin) Count(method string) (n int) {
	for _, c := range p.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

func (p *Plugin) call(ctx context.Context, c Call) error {
	c.Began = time.Now()
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	if p.Latency > 0 {
		timer := time.NewTimer(p.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if p.Fault != nil {
		if err := p.Fault(ctx, c); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return volume.Transient(err)
	}
	return nil
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string {
	if p.PluginName == "" {
		return "example.com/memory"
	}
	return p.PluginName
}

// Supports implements volume.Plugin.
func (p *Plugin) Supports(s *volume.Spec) bool { return p.Takes == nil || p.Takes(s) }

// Remounts implements volume.Remounter.
func (p *Plugin) Remounts(*volume.Spec) bool { return p.Refresh }

// Objects implements volume.Dependent.
func (p *Plugin) Objects(pod *v1.Pod, spec *volume.Spec) []volume.Object {
	if p.DependsOn == nil {
		return nil
	}
	return p.DependsOn(pod, spec)
}

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	if err := p.call(ctx, Call{Method: "Mount", Pod: m.Pod.UID, Volume: m.Spec.Name, Again: m.Again, Found: m.Found}); err != nil {
		return volume.Mounted{}, err
	}
	content := ""
	if p.Content != nil {
		var err error
		if content, err = p.Content(ctx, m); err != nil {
			return volume.Mounted{}, err
		}
	}
	out := volume.Mounted{ReadOnly: m.Spec.ReadOnly}
	if p.RefreshAt != nil {
		out.RefreshAt = p.RefreshAt()
	}
	if m.Spec.Block() {
		out.Device = m.Dir
		err := os.Symlink("/dev/null", m.Dir)
		if errors.Is(err, iofs.ErrExist) {
			err = nil
		}
		return out, volume.Uncertain(err)
	}
	out.Path = m.Dir
	if err := os.MkdirAll(m.Dir, 0o750); err != nil {
		return volume.Mounted{}, volume.Uncertain(err)
	}
	return out, volume.Uncertain(replace(filepath.Join(m.Dir, "content"), content))
}

// replace writes a file so that it has the old content or the new one, but for one that
// has the new one already.
func replace(file, content string) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == content {
		return nil
	}
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	if err := p.call(ctx, Call{Method: "Unmount", Pod: u.Pod, Volume: u.Name}); err != nil {
		return err
	}
	return os.RemoveAll(u.Dir)
}

// Shared is a Plugin of which persistent volumes are shared by the pods of a node. It
// implements volume.Stager, volume.Owner, volume.Attachable and volume.Expander, too.
type Shared struct {
	*Plugin
	// Root is where it stages volumes. Required.
	Root string
	// Attach is what Attaches says.
	Attach bool
}

var (
	_ volume.Stager     = (*Shared)(nil)
	_ volume.Owner      = (*Shared)(nil)
	_ volume.Attachable = (*Shared)(nil)
	_ volume.Expander   = (*Shared)(nil)
)

// VolumeID implements volume.Stager.
func (s *Shared) VolumeID(spec *volume.Spec) string {
	if spec.Persistent == nil {
		return ""
	}
	return "handle-" + spec.Persistent.Name
}

func (s *Shared) stageDir(id string) string { return filepath.Join(s.Root, id) }

// Mount implements volume.Plugin. It fails if the volume is not staged.
func (s *Shared) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	if id := s.VolumeID(m.Spec); id != "" {
		if want := s.stageDir(id); m.Staged != want {
			return volume.Mounted{}, fmt.Errorf("volume %s: Staged is %q and not %q", m.Spec.Name, m.Staged, want)
		}
		if _, err := os.Stat(m.Staged); err != nil {
			return volume.Mounted{}, err
		}
		// So that the next agent knows whose it is.
		if err := os.MkdirAll(m.Dir, 0o750); err != nil {
			return volume.Mounted{}, volume.Uncertain(err)
		}
		data, _ := json.Marshal(id)
		if err := replace(filepath.Join(m.Dir, "id"), string(data)); err != nil {
			return volume.Mounted{}, volume.Uncertain(err)
		}
	}
	return s.Plugin.Mount(ctx, m)
}

// VolumeIDOf implements volume.Owner.
func (s *Shared) VolumeIDOf(dir string) (id string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "id"))
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = json.Unmarshal(data, &id)
	}
	return id, err
}

// Stage implements volume.Stager.
func (s *Shared) Stage(ctx context.Context, st volume.Stage) (string, error) {
	if err := s.call(ctx, Call{Method: "Stage", Volume: st.ID, Found: st.Found}); err != nil {
		return "", err
	}
	return s.stageDir(st.ID), volume.Uncertain(os.MkdirAll(s.stageDir(st.ID), 0o750))
}

// Unstage implements volume.Stager.
func (s *Shared) Unstage(ctx context.Context, id string) error {
	if err := s.call(ctx, Call{Method: "Unstage", Volume: id}); err != nil {
		return err
	}
	return os.RemoveAll(s.stageDir(id))
}

// Staged implements volume.Stager.
func (s *Shared) Staged(ctx context.Context) (ids []string, err error) {
	if err := s.call(ctx, Call{Method: "Staged"}); err != nil {
		return nil, err
	}
	entries, err := fs.List(s.Root)
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, err
}

// Attaches implements volume.Attachable.
func (s *Shared) Attaches(context.Context, *volume.Spec) (bool, error) { return s.Attach, nil }

// Expand implements volume.Expander.
func (s *Shared) Expand(ctx context.Context, spec *volume.Spec, _, _ string) (int64, error) {
	if err := s.call(ctx, Call{Method: "Expand", Volume: spec.Name}); err != nil {
		return 0, err
	}
	size := spec.Persistent.Spec.Capacity[v1.ResourceStorage]
	return size.Value(), nil
}
