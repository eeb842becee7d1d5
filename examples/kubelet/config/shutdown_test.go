package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// How long pods get when the node goes down is taken from the file; what is wrong is named
// with its field.
func TestShutdownPeriods(t *testing.T) {
	read := func(text string) error {
		file := filepath.Join(t.TempDir(), "kubelet.yaml")
		require.NoError(t, os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text), 0o600))
		_, err := FromArgs([]string{"--hostname-override=n", "--root-dir=/r", "--config=" + file}, io.Discard)
		return err
	}
	for _, text := range []string{
		"shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s",
		"shutdownGracePeriod: 1s\nshutdownGracePeriodCriticalPods: 1s",
		"shutdownGracePeriodByPodPriority: [{priority: 1000, shutdownGracePeriodSeconds: 5}, {priority: -7, shutdownGracePeriodSeconds: 0}]",
	} {
		require.NoError(t, read(text), text)
	}
	for text, want := range map[string]string{
		"shutdownGracePeriod: 500ms":                                                                         "shutdownGracePeriod: 500ms is neither",
		"shutdownGracePeriod: -1s":                                                                           "shutdownGracePeriod: -1s is neither",
		"shutdownGracePeriod: 100000h":                                                                       "shutdownGracePeriod: 100000h",
		"shutdownGracePeriodCriticalPods: 5s":                                                                "shutdownGracePeriodCriticalPods: 5s is more than shutdownGracePeriod: 0s",
		"shutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 5s":                                       "shutdownGracePeriodCriticalPods: 5s is more",
		"shutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 999ms":                                    "shutdownGracePeriodCriticalPods: 999ms",
		"shutdownGracePeriodByPodPriority: [{shutdownGracePeriodSeconds: -1}]":                               "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: -1",
		"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 4000000000000000000}]": "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds",
		"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 400000}, {shutdownGracePeriodSeconds: 400000}]": "shutdownGracePeriodByPodPriority[1].shutdownGracePeriodSeconds",
		"shutdownGracePeriodByPodPriority: [{priority: 1}, {priority: 1}]":                                                            "shutdownGracePeriodByPodPriority[1].priority: 1 is there twice",
		"shutdownGracePeriod: 4s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]":                   "contradicts shutdownGracePeriod",
	} {
		require.ErrorContains(t, read(text), want)
	}
}
