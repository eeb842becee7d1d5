package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/volume/usage"
)

var claimFigures = []struct {
	desc *prometheus.Desc
	of   func(usage.Usage) int64
}{
	{claimDesc("capacity_bytes", "Capacity of the volume, in bytes."), func(u usage.Usage) int64 { return u.Capacity }},
	{claimDesc("available_bytes", "Available bytes of the volume."), func(u usage.Usage) int64 { return u.Available }},
	{claimDesc("used_bytes", "Used bytes of the volume."), func(u usage.Usage) int64 { return u.Bytes }},
	{claimDesc("inodes", "Maximum number of inodes of the volume."), func(u usage.Usage) int64 { return limited(u, u.TotalFiles) }},
	{claimDesc("inodes_free", "Number of free inodes of the volume."), func(u usage.Usage) int64 { return limited(u, u.FreeFiles) }},
	{claimDesc("inodes_used", "Number of used inodes of the volume."), func(u usage.Usage) int64 { return u.Files }},
}

func claimDesc(name, help string) *prometheus.Desc {
	return desc("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}

// limited returns n, or -1 (unknown) for a filesystem without a limit of files.
func limited(u usage.Usage, n int64) int64 {
	if u.TotalFiles <= 0 {
		return -1
	}
	return n
}

func claimDescs() (all descs) {
	for _, f := range claimFigures {
		all = append(all, f.desc)
	}
	return all
}

// claims collects the usage of volumes by PersistentVolumeClaim. It leaves out unknown figures.
func (l Live) claims(out chan<- prometheus.Metric) {
	for name, u := range l.Claims() {
		for _, f := range claimFigures {
			if n := f.of(u); n >= 0 {
				gauge(out, f.desc, int(n), name.Namespace, name.Name)
			}
		}
	}
}

var logDesc = desc("kubelet_container_log_filesystem_used_bytes", "Bytes that the container's logs use.", "uid", "namespace", "pod", "container")

func (l Live) logSizes(out chan<- prometheus.Metric) {
	for _, log := range l.Logs() {
		gauge(out, logDesc, int(log.Bytes), string(log.UID), log.Namespace, log.Pod, log.Container)
	}
}

var (
	pullingDesc = desc("kubelet_imagemanager_ondisk_pullintents", "Number of records of pulls in progress on the disk.")
	pulledDesc  = desc("kubelet_imagemanager_ondisk_pulledrecords", "Number of records of pulled images with their credentials on the disk.")
)

func (l Live) pullRecords(out chan<- prometheus.Metric) {
	pulling, pulled := l.Records()
	gauge(out, pullingDesc, pulling)
	gauge(out, pulledDesc, pulled)
}
