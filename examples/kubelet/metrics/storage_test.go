package metrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/usage"
)

func TestClaimsAndLogs(t *testing.T) {
	m := newMetrics(t)
	require.NoError(t, m.Follow(Live{
		Claims: func() map[types.NamespacedName]usage.Usage {
			return map[types.NamespacedName]usage.Usage{
				{Namespace: "ns", Name: "full"}: {Capacity: 10, Available: 0, Bytes: 10, TotalFiles: 5, FreeFiles: 3, Files: 2},
				{Namespace: "ns", Name: "some"}: {Capacity: 20, Available: -1, Bytes: 7, Files: -1}, // the driver reports only these figures
			}
		},
		Logs: func() []summary.Log {
			return []summary.Log{{UID: "u", Namespace: "ns", Pod: "p", Container: "c", Bytes: 9}}
		},
		Records: func() (int, int) { return 1, 4 },
	}))
	const full, some = " namespace=ns persistentvolumeclaim=full ", " namespace=ns persistentvolumeclaim=some "
	has(t, m.all, "kubelet_volume_stats_capacity_bytes kubelet_volume_stats_available_bytes kubelet_volume_stats_used_bytes kubelet_volume_stats_inodes kubelet_volume_stats_inodes_free kubelet_volume_stats_inodes_used",
		"kubelet_volume_stats_capacity_bytes"+full+"10", "kubelet_volume_stats_available_bytes"+full+"0", "kubelet_volume_stats_used_bytes"+full+"10",
		"kubelet_volume_stats_inodes"+full+"5", "kubelet_volume_stats_inodes_free"+full+"3", "kubelet_volume_stats_inodes_used"+full+"2",
		"kubelet_volume_stats_capacity_bytes"+some+"20", "kubelet_volume_stats_used_bytes"+some+"7")
	has(t, m.all, "kubelet_container_log_filesystem_used_bytes kubelet_imagemanager_ondisk_pullintents kubelet_imagemanager_ondisk_pulledrecords",
		"kubelet_container_log_filesystem_used_bytes container=c namespace=ns pod=p uid=u 9", "kubelet_imagemanager_ondisk_pullintents 1", "kubelet_imagemanager_ondisk_pulledrecords 4")
}

func TestMeasurementMetrics(t *testing.T) {
	m := newMetrics(t)
	m.Volumes.Measured().OnMeasured(usage.Walked, time.Second, nil)
	m.Volumes.Measured().OnMeasured(usage.Project, 0, errBroken)
	m.Volumes.CSI().OnCall(csi.Call{Driver: "d", Method: "NodeGetVolumeStats", Took: 2 * time.Second})
	m.Volumes.CSI().OnCall(csi.Call{Driver: "d", Method: "NodePublishVolume", Took: 2 * time.Second})
	const name = "kubelet_volume_metric_collection_duration_seconds"
	has(t, m.all, name, name+" metric_source=du 1 1", name+" metric_source=fsquota 1 0", name+" metric_source=d 1 2")
	m.Images.Checked(records.ResultRecorded)
	has(t, m.all, "kubelet_imagemanager_image_mustpull_checks_total", "kubelet_imagemanager_image_mustpull_checks_total result=credentialRecordFound 1")
	m.Images.Plugin("p", 2*time.Second, nil)
	m.Images.Plugin("p", 2*time.Second, errBroken)
	has(t, m.all, "kubelet_credential_provider_plugin_duration kubelet_credential_provider_plugin_errors_total", "kubelet_credential_provider_plugin_duration plugin_name=p 2 4", "kubelet_credential_provider_plugin_errors_total plugin_name=p 1")
	m.Node.Measures("cgroups")
	has(t, m.all, "kubelet_metrics_provider", "kubelet_metrics_provider provider=cgroups 1")
}

func TestUsersAndImages(t *testing.T) {
	m := newMetrics(t)
	c := m.Pods.Callbacks()
	c.OnUsersStart(nil)
	c.OnUsersStart(errBroken)
	c.OnImagesMount(3, false)
	c.OnImagesMount(2, true)
	has(t, m.all, "kubelet_started_user_namespaced_pods_total kubelet_started_user_namespaced_pods_errors_total kubelet_image_volume_requested_total kubelet_image_volume_mounted_succeed_total kubelet_image_volume_mounted_errors_total",
		"kubelet_started_user_namespaced_pods_total 2", "kubelet_started_user_namespaced_pods_errors_total 1",
		"kubelet_image_volume_requested_total 5", "kubelet_image_volume_mounted_succeed_total 3", "kubelet_image_volume_mounted_errors_total 2")
}

func TestLabels(t *testing.T) {
	m := newMetrics(t)
	check := m.Volumes.Callbacks().OnLabel
	claimed := func(driver string, modes ...v1.PersistentVolumeAccessMode) *volume.Spec {
		pv := &v1.PersistentVolume{}
		pv.Spec.AccessModes = modes
		if driver != "" {
			pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver}
		}
		return &volume.Spec{Persistent: pv}
	}
	check(manager.LabelCheck{Plugin: csi.Name, Spec: claimed("d", v1.ReadWriteOncePod), Result: manager.LabelFits, Enforced: true})
	check(manager.LabelCheck{Plugin: csi.Name, Spec: claimed("d", v1.ReadWriteOncePod), Result: manager.LabelConflict, Enforced: true})
	check(manager.LabelCheck{Plugin: "nfs", Spec: claimed("", v1.ReadWriteOnce, v1.ReadOnlyMany), Result: manager.LabelConflict})
	check(manager.LabelCheck{Plugin: csi.Name, Spec: &volume.Spec{Inline: &v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "e"}}}, Result: manager.LabelFits})
	check(manager.LabelCheck{Plugin: "nfs", Spec: claimed("", v1.ReadWriteMany), Result: manager.LabelsDiffer})
	check(manager.LabelCheck{Plugin: "nfs", Spec: claimed("", v1.ReadWriteOncePod), Result: manager.LabelsDiffer, Enforced: true})
	check(manager.LabelCheck{Plugin: "nfs", Spec: claimed("", v1.ReadWriteOnce), Result: manager.LabelUnknown})
	check(manager.LabelCheck{Plugin: "nfs", Spec: claimed(""), Result: manager.LabelUnknown, Enforced: true})
	const of = "volume_manager_selinux_"
	has(t, m.all, of+"volumes_admitted_total "+of+"container_errors_total "+of+"container_warnings_total "+of+"pod_context_mismatch_errors_total "+of+"pod_context_mismatch_warnings_total "+
		of+"volume_context_mismatch_errors_total "+of+"volume_context_mismatch_warnings_total",
		of+"volumes_admitted_total access_mode=RWOP volume_plugin=kubernetes.io/csi/d 1", of+"volumes_admitted_total access_mode=inline volume_plugin=kubernetes.io/csi/e 1",
		of+"volume_context_mismatch_errors_total access_mode=RWOP volume_plugin=kubernetes.io/csi/d 1", of+"volume_context_mismatch_warnings_total access_mode=ROX volume_plugin=nfs 1",
		of+"pod_context_mismatch_warnings_total access_mode=RWX 1", of+"pod_context_mismatch_errors_total access_mode=RWOP 1",
		of+"container_warnings_total access_mode=RWO 1", of+"container_errors_total access_mode= 1")
}
