package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/volume/usage"
)

// claims tells what volumes of PersistentVolumeClaims use. What is not known is left out.
type claims struct {
	look func() map[types.NamespacedName]usage.Usage
}

// claimFigures are the metrics of a claim.
var claimFigures = []struct {
	desc *prometheus.Desc
	of   func(usage.Usage) int64
}{
	{claimDesc("capacity_bytes", "How large the volume is, in bytes."), func(u usage.Usage) int64 { return u.Capacity }},
	{claimDesc("available_bytes", "How many bytes of the volume can be used."), func(u usage.Usage) int64 { return u.Available }},
	{claimDesc("used_bytes", "How many bytes of the volume are used."), func(u usage.Usage) int64 { return u.Bytes }},
	{claimDesc("inodes", "How many files the volume can have."), func(u usage.Usage) int64 { return limited(u, u.TotalFiles) }},
	{claimDesc("inodes_free", "How many more files the volume can have."), func(u usage.Usage) int64 { return limited(u, u.FreeFiles) }},
	{claimDesc("inodes_used", "How many files the volume has."), func(u usage.Usage) int64 { return u.Files }},
}

func claimDesc(name, help string) *prometheus.Desc {
	return desc("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}

// limited is n, or not known of what has no limit of files.
func limited(u usage.Usage, n int64) int64 {
	if u.TotalFiles <= 0 {
		return -1
	}
	return n
}

// Describe implements prometheus.Collector.
func (claims) Describe(out chan<- *prometheus.Desc) {
	for _, f := range claimFigures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c claims) Collect(out chan<- prometheus.Metric) {
	for name, u := range c.look() {
		for _, f := range claimFigures {
			if n := f.of(u); n >= 0 {
				gauge(out, f.desc, int(n), name.Namespace, name.Name)
			}
		}
	}
}

// logSizes tells what containers' logs use.
type logSizes struct{ look func() []summary.Log }

var logDesc = desc("kubelet_container_log_filesystem_used_bytes", "How many bytes the container's logs use.", "uid", "namespace", "pod", "container")

// Describe implements prometheus.Collector.
func (logSizes) Describe(out chan<- *prometheus.Desc) { out <- logDesc }

// Collect implements prometheus.Collector.
func (l logSizes) Collect(out chan<- prometheus.Metric) {
	for _, log := range l.look() {
		gauge(out, logDesc, int(log.Bytes), string(log.UID), log.Namespace, log.Pod, log.Container)
	}
}

// records counts the records of pulls.
type pullRecords struct{ look func() (int, int) }

var (
	pullingDesc = desc("kubelet_imagemanager_ondisk_pullintents", "How many pulls are noted on the disk as under way.")
	pulledDesc  = desc("kubelet_imagemanager_ondisk_pulledrecords", "How many images have a record on the disk of who may use them.")
)

// Describe implements prometheus.Collector.
func (pullRecords) Describe(out chan<- *prometheus.Desc) { out <- pullingDesc; out <- pulledDesc }

// Collect implements prometheus.Collector.
func (r pullRecords) Collect(out chan<- prometheus.Metric) {
	pulling, pulled := r.look()
	gauge(out, pullingDesc, pulling)
	gauge(out, pulledDesc, pulled)
}
