package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
)

// seLinux counts SELinux labels of volumes. They are gauges in spite of their names, as upstream.
type seLinux struct {
	admitted *prometheus.GaugeVec
	// refused counts volumes that were refused, warned counts those with a warning only.
	refused, warned map[manager.LabelResult]*prometheus.GaugeVec
}

const accessMode = "access_mode"

func newSELinux(b *builder) *seLinux {
	s := &seLinux{
		admitted: b.gauges("volume_manager_selinux_volumes_admitted_total", "Number of volumes with a matching SELinux label, by plugin and access mode.", "volume_plugin", accessMode),
		refused:  map[manager.LabelResult]*prometheus.GaugeVec{}, warned: map[manager.LabelResult]*prometheus.GaugeVec{},
	}
	for result, what := range map[manager.LabelResult]struct {
		name, help string
		labels     []string
	}{
		manager.LabelUnknown:  {"container", "Number of containers whose SELinux file label could not be determined", []string{accessMode}},
		manager.LabelsDiffer:  {"pod_context_mismatch", "Number of pods whose containers require different SELinux labels for one volume", []string{accessMode}},
		manager.LabelConflict: {"volume_context_mismatch", "Number of pods that require a different SELinux label for a volume than a pod that already uses it", []string{"volume_plugin", accessMode}},
	} {
		s.refused[result] = b.gauges("volume_manager_selinux_"+what.name+"_errors_total", what.help+"; the pod waits.", what.labels...)
		s.warned[result] = b.gauges("volume_manager_selinux_"+what.name+"_warnings_total", what.help+"; the pod would wait if all volumes were mounted with labels.", what.labels...)
	}
	return s
}

// checked is the OnLabel of package volume/manager.
func (s *seLinux) checked(c manager.LabelCheck) {
	mode := shortMode(c.Spec)
	to := s.warned
	if c.Enforced {
		to = s.refused
	}
	switch c.Result {
	case manager.LabelFits:
		s.admitted.WithLabelValues(pluginAndDriver(c), mode).Inc()
	case manager.LabelConflict:
		to[c.Result].WithLabelValues(pluginAndDriver(c), mode).Inc()
	default:
		to[c.Result].WithLabelValues(mode).Inc()
	}
}

// shortMode returns the abbreviation of a volume's widest access mode.
func shortMode(spec *volume.Spec) string {
	if spec.Persistent == nil {
		return "inline"
	}
	for _, m := range []struct {
		mode  v1.PersistentVolumeAccessMode
		short string
	}{{v1.ReadWriteMany, "RWX"}, {v1.ReadOnlyMany, "ROX"}, {v1.ReadWriteOnce, "RWO"}, {v1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(spec.Persistent.Spec.AccessModes, m.mode) {
			return m.short
		}
	}
	return ""
}

func pluginAndDriver(c manager.LabelCheck) string {
	switch {
	case c.Plugin != csi.Name:
	case c.Spec.Persistent != nil && c.Spec.Persistent.Spec.CSI != nil:
		return c.Plugin + "/" + c.Spec.Persistent.Spec.CSI.Driver
	case c.Spec.Inline != nil && c.Spec.Inline.CSI != nil:
		return c.Plugin + "/" + c.Spec.Inline.CSI.Driver
	}
	return c.Plugin
}
