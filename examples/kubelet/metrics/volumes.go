package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/usage"
)

// Volumes counts volume operations and calls to CSI drivers.
type Volumes struct {
	operations, whole, calls       *prometheus.HistogramVec
	measured                       *prometheus.HistogramVec
	found, unknown, forced, failed prometheus.Counter
	labels                         *seLinux
}

var storageSeconds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// migrated is the label of in-tree plugins whose volumes a CSI driver took over. There are none
// here.
const migrated = "false"

func newVolumes(b *builder) *Volumes {
	return &Volumes{
		operations: b.histograms("storage_operation_duration_seconds", "Duration of volume operations, by plugin, operation and status.",
			storageSeconds, "volume_plugin", "operation_name", "status", "migrated"),
		whole: b.histograms("volume_operation_total_seconds", "Time until a volume was mounted, with failed attempts.",
			storageSeconds, "plugin_name", "operation_name"),
		calls: b.histograms("csi_operations_seconds", "Duration of calls to CSI drivers, by status code.",
			storageSeconds, "driver_name", "method_name", "grpc_status_code", "migrated"),
		measured: b.histograms("kubelet_volume_metric_collection_duration_seconds", "Duration of measuring the usage of a volume or log, by method: statfs, fsquota, du, or a CSI driver.",
			nil, "metric_source"),
		found:   b.counter("reconstruct_volume_operations_total", "Number of volumes of an earlier agent that were found on the disk."),
		unknown: b.counter("reconstruct_volume_operations_errors_total", "Number of volumes on the disk that could not be identified."),
		forced:  b.counter("force_cleaned_failed_volume_operations_total", "Number of unmounts of unidentified volumes."),
		failed:  b.counter("force_cleaned_failed_volume_operation_errors_total", "Number of failed unmounts of unidentified volumes."),
		labels:  newSELinux(b),
	}
}

// Callbacks returns the callbacks for package volume/manager.
func (v *Volumes) Callbacks() manager.Metrics {
	return manager.Metrics{OnOperation: v.operation, OnReady: v.ready, OnFound: v.onDisk, OnLabel: v.labels.checked}
}

func (v *Volumes) operation(o manager.Operation) {
	how := "success"
	if o.Err != nil {
		how = "fail-unknown"
	}
	v.operations.WithLabelValues(o.Plugin, o.Name, how, migrated).Observe(o.Took.Seconds())
	if o.Forced {
		v.forced.Inc()
		if o.Err != nil {
			v.failed.Inc()
		}
	}
}

func (v *Volumes) ready(plugin string, took time.Duration) {
	v.whole.WithLabelValues(plugin, "overall_volume_mount").Observe(took.Seconds())
}

func (v *Volumes) onDisk(_ string, known bool) {
	v.found.Inc()
	if !known {
		v.unknown.Inc()
	}
}

// CSI returns the callbacks for package volume/csi and for the registration of drivers.
func (v *Volumes) CSI() csi.Metrics {
	return csi.Metrics{OnCall: func(c csi.Call) {
		v.calls.WithLabelValues(c.Driver, "/csi.v1.Node/"+c.Method, code(c.Err), migrated).Observe(c.Took.Seconds())
		if c.Method == "NodeGetVolumeStats" {
			v.measured.WithLabelValues(c.Driver).Observe(c.Took.Seconds())
		}
	}}
}

// Measured returns the callbacks for package volume/usage.
func (v *Volumes) Measured() usage.Metrics {
	return usage.Metrics{OnMeasured: func(source usage.Source, took time.Duration, _ error) {
		v.measured.WithLabelValues(string(source)).Observe(took.Seconds())
	}}
}

// code returns the label of a gRPC status. Other errors never reached a driver.
func code(err error) string {
	if err == nil {
		return codes.OK.String()
	}
	s, ok := status.FromError(err)
	if !ok {
		return "unknown-non-grpc"
	}
	return s.Code().String()
}
