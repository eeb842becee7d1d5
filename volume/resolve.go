package volume

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// resolve finds out what the volumes are that a pod uses. Image volumes are the
// runtime's. Those with claims are asked for at the same time.
func (m *Manager) resolve(ctx context.Context, pod *v1.Pod) []resolved {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.OperationTimeout)
	defer cancel()
	var out []resolved
	var used []Used
	for _, u := range UsedBy(pod) {
		if _, v := find(pod, u.Name); v.Image == nil {
			used = append(used, u)
			out = append(out, resolved{name: u.Name})
		}
	}
	run.Each(len(used), func(i int) error {
		r := &out[i]
		err := run.Guard("resolving volume "+r.name, func() error { return m.resolveOne(ctx, pod, &used[i], r) })
		if err != nil {
			*r = resolved{name: r.name, err: err}
		}
		return nil
	})
	return out
}

func find(pod *v1.Pod, name string) (index int, v *v1.Volume) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return i, v
		}
	}
	return -1, nil
}

func (m *Manager) resolveOne(ctx context.Context, pod *v1.Pod, u *Used, r *resolved) (err error) {
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
	if p, ok := r.plugin.(Stager); ok {
		r.shared = p.VolumeID(r.spec)
	}
	if p, ok := r.plugin.(Remounter); ok {
		r.remounts = p.Remounts(r.spec)
	}
	if p, ok := r.plugin.(Dependent); ok {
		r.objects = p.Objects(pod, r.spec)
	}
	return nil
}

// spec is that of a volume of a pod, its claim resolved.
func (m *Manager) spec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (*Spec, error) {
	if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
		return &Spec{Name: v.Name, Inline: &v.VolumeSource}, nil
	}
	if m.cfg.Claims == nil {
		return nil, errors.New("this agent has no claims")
	}
	return m.cfg.Claims.Resolve(ctx, pod, *v)
}

// pluginFor is the one plugin that supports a volume.
func (m *Manager) pluginFor(s *Spec) (found Plugin, err error) {
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

// sourceName is the field of the volume's source in the pod's spec.
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
