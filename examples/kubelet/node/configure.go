package node

import (
	"errors"
	"fmt"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Flags are the flags of the node, as they were given.
type Flags struct {
	// NodeIP is --node-ip, NodeLabels --node-labels, CloudProvider --cloud-provider.
	NodeIP, NodeLabels, CloudProvider string
}

// Configure reads the flags, and of the configuration what concerns the node; zeros are
// defaults. What is left is for the caller to fill in. All that is wrong is named.
func Configure(f Flags, k *kubeletv1beta1.KubeletConfiguration) (Config, GathererConfig, error) {
	c := Config{
		Taints:           k.RegisterWithTaints,
		ProviderID:       k.ProviderID,
		NoRegister:       k.RegisterNode != nil && !*k.RegisterNode,
		ControllerAttach: k.EnableControllerAttachDetach == nil || *k.EnableControllerAttachDetach,
		Update:           k.NodeStatusUpdateFrequency.Duration,
		Report:           k.NodeStatusReportFrequency.Duration,
		LeaseDuration:    time.Duration(k.NodeLeaseDurationSeconds) * time.Second,
	}
	g := GathererConfig{MaxPods: k.MaxPods, PodsPerCore: k.PodsPerCore, MaxImages: 50}
	if k.NodeStatusMaxImages != nil {
		g.MaxImages = *k.NodeStatusMaxImages
	}
	var errs [7]error
	c.Labels, errs[0] = ParseLabels(f.NodeLabels)
	c.Addressing.IPs, errs[1] = ParseNodeIPs(f.NodeIP)
	c.Addressing.External, errs[2] = ParseCloudProvider(f.CloudProvider)
	errs[3] = CheckTaints("registerWithTaints (--register-with-taints)", k.RegisterWithTaints)
	g.Reserved, errs[4] = ParseReservations(k)
	errs[5] = checkNumbers(k, g.MaxImages)
	errs[6] = checkTimes(c)
	return c, g, errors.Join(errs[:]...)
}

func checkNumbers(k *kubeletv1beta1.KubeletConfiguration, maxImages int32) error {
	var errs []error
	refuse := func(bad bool, field string, value int32, why string) {
		if bad {
			errs = append(errs, fmt.Errorf("%s: %d %s", field, value, why))
		}
	}
	refuse(k.MaxPods < 0, "maxPods", k.MaxPods, "is negative")
	refuse(k.PodsPerCore < 0, "podsPerCore", k.PodsPerCore, "is negative")
	refuse(maxImages < -1, "nodeStatusMaxImages", maxImages, "is less than -1")
	refuse(k.NodeLeaseDurationSeconds < 0, "nodeLeaseDurationSeconds", k.NodeLeaseDurationSeconds, "is negative")
	return errors.Join(errs...)
}

func checkTimes(c Config) error {
	var errs []error
	if c.Update < 0 {
		errs = append(errs, fmt.Errorf("nodeStatusUpdateFrequency: %s is negative", c.Update))
	}
	if c.Report < 0 {
		errs = append(errs, fmt.Errorf("nodeStatusReportFrequency: %s is negative", c.Report))
	}
	return errors.Join(errs...)
}
