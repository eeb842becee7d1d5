package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// resolved is a pod's volume with its plugin and the content of its claim.
type resolved struct {
	name string
	// claim is true if the claim must still be read. err is the error of the resolution. With
	// either, the other fields are zero.
	claim      bool
	err        error
	plugin     volume.Plugin
	spec       *volume.Spec
	inside     []string
	shared     string
	remounts   bool
	objects    []volume.Object
	label      string // for its mount
	needsLabel string // required by the pod
}

func (r *resolved) key() volumeKey {
	return volumeKey{r.plugin.Name(), r.spec.Name, r.spec.Block()}
}

// resolve resolves the volumes that a pod uses, except claims, which must be read. Image
// volumes belong to the runtime.
func (m *Manager) resolve(ctx context.Context, pod *v1.Pod) (out []resolved) {
	for _, u := range usedBy(pod) {
		_, v := find(pod, u.Name)
		switch {
		case v.Image != nil:
		case claims(v):
			out = append(out, resolved{name: u.Name, claim: true})
		default:
			out = append(out, m.resolveOne(ctx, pod, u))
		}
	}
	return out
}

func claims(v *v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// readClaims reads the claims that resolve left out, concurrently.
func (m *Manager) readClaims(ctx context.Context, pod *v1.Pod, volumes []resolved) (out []resolved) {
	for _, r := range volumes {
		if r.claim {
			out = append(out, r)
		}
	}
	used := usedBy(pod)
	run.Each(len(out), func(i int) error {
		name := out[i].name
		u := used[slices.IndexFunc(used, func(u volumeUse) bool { return u.Name == name })]
		result := make(chan resolved, 1)
		err := m.claims.Do(ctx, "reading the claim of volume", string(pod.UID)+"/"+name, func() error {
			result <- m.resolveOne(ctx, pod, u)
			return nil
		})
		if out[i] = (resolved{name: name, err: err}); err == nil {
			out[i] = <-result
		}
		return nil
	})
	return out
}

// resolveOne resolves a volume. It returns errors and panics in r.err.
func (m *Manager) resolveOne(ctx context.Context, pod *v1.Pod, u volumeUse) (r resolved) {
	r.name = u.Name
	if err := run.Guard("resolving volume "+u.Name, func() error { return m.resolveInto(ctx, pod, &u, &r) }); err != nil {
		return resolved{name: u.Name, err: err}
	}
	return r
}

func find(pod *v1.Pod, name string) (index int, v *v1.Volume) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return i, v
		}
	}
	return -1, nil
}

func (m *Manager) resolveInto(ctx context.Context, pod *v1.Pod, u *volumeUse, r *resolved) (err error) {
	i, v := find(pod, u.Name)
	field := fmt.Sprintf("spec.volumes[%d].%s", i, sourceName(&v.VolumeSource))
	if r.spec, err = m.spec(ctx, pod, v); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if err := r.spec.Check(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	switch block := r.spec.Block(); {
	case block && u.Mounts:
		return fmt.Errorf("%s: volume %q has volumeMode Block and is named in volumeMounts", field, u.Name)
	case !block && u.Devices:
		return fmt.Errorf("%s: volume %q has volumeMode Filesystem and is named in volumeDevices", field, u.Name)
	}
	if r.plugin, err = m.pluginFor(r.spec); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	r.inside = u.Inside
	if p, ok := r.plugin.(volume.Stager); ok {
		r.shared = p.VolumeID(r.spec)
	}
	if p, ok := r.plugin.(volume.Remounter); ok {
		r.remounts = p.Remounts(r.spec)
	}
	if p, ok := r.plugin.(volume.Dependent); ok {
		r.objects = p.Objects(pod, r.spec)
	}
	if r.label, err = m.label(pod, r); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

func (m *Manager) spec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (*volume.Spec, error) {
	if !claims(v) {
		return &volume.Spec{Name: v.Name, Inline: &v.VolumeSource}, nil
	}
	if m.cfg.Claims == nil {
		return nil, errors.New("this agent has no claims")
	}
	return m.cfg.Claims.Resolve(ctx, pod, *v)
}

func (m *Manager) pluginFor(s *volume.Spec) (found volume.Plugin, err error) {
	for _, p := range m.cfg.Plugins {
		switch {
		case !p.Supports(s):
		case found != nil:
			return nil, fmt.Errorf("both %s and %s support the volume", found.Name(), p.Name())
		default:
			found = p
		}
	}
	if found == nil {
		kind := "volumes of this kind"
		if s.Persistent != nil {
			kind = "the PersistentVolume " + s.Persistent.Name
		}
		return nil, fmt.Errorf("this agent has no plugin for %s", kind)
	}
	return found, nil
}

// sourceName returns the field of the volume's source in the pod's spec.
func sourceName(s *v1.VolumeSource) string {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "source"
}
