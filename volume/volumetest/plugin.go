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

// Call records a call of a method of a Plugin.
type Call struct {
	// Method is "Mount", "Unmount", "Expand", "Stage", "Unstage" or "Staged".
	Method string
	// Pod is the pod's UID. It is set for Mount and Unmount only.
	Pod types.UID
	// Volume is Spec.Name, or the id of a shared volume.
	Volume string
	// Again and Found are the fields of volume.Mount. Stage sets Found, too.
	Again, Found bool
	// Began is the time of the call.
	Began time.Time
}

// Plugin is a volume.Plugin that creates folders. It writes the result of Content to
// <Dir>/content. Its state is on the disk, so that another Plugin can continue. Set its fields
// before use. It is safe for concurrent use.
type Plugin struct {
	// PluginName is the plugin's name. Default: "example.com/memory".
	PluginName string
	// Takes reports whether the plugin supports a volume. Optional: without it the plugin
	// supports all volumes.
	Takes func(*volume.Spec) bool
	// Latency is the duration of each call. Default: zero.
	Latency time.Duration
	// Fault is called after Latency in each call that has a context. If it returns an error,
	// the call fails with that error and changes no files. The call blocks until Fault returns.
	// Optional.
	Fault func(context.Context, Call) error
	// Content returns the content of a pod's volume. Optional: without it volumes are empty.
	Content func(context.Context, volume.Mount) (string, error)
	// Refresh is the result of Remounts.
	Refresh bool
	// DependsOn returns the result of Objects. Optional: without it there are none.
	DependsOn func(*v1.Pod, *volume.Spec) []volume.Object
	// RefreshAt returns the value of Mounted.RefreshAt. Optional: without it volumes are never
	// refreshed.
	RefreshAt func() time.Time

	mu    sync.Mutex
	calls []Call
}

var (
	_ volume.Plugin    = (*Plugin)(nil)
	_ volume.Remounter = (*Plugin)(nil)
	_ volume.Dependent = (*Plugin)(nil)
)

// Calls returns the calls so far, ordered by their start.
func (p *Plugin) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Count returns the number of calls of a method.
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

// replace writes a file atomically, unless the file has the content already.
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

// Shared is a Plugin whose persistent volumes are shared by the pods of a node. It also
// implements volume.Stager, volume.Identifier, volume.Attachable and volume.Expander.
type Shared struct {
	*Plugin
	// Root is the folder for staged volumes. Required.
	Root string
	// Attach is the result of Attaches.
	Attach bool
}

var (
	_ volume.Stager     = (*Shared)(nil)
	_ volume.Identifier = (*Shared)(nil)
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
		// VolumeIDOf of the next agent reads the id from the folder.
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

// VolumeIDOf implements volume.Identifier.
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
