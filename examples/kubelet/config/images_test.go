package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fromFile(t *testing.T, text string, args ...string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(head+text), 0o600))
	return FromArgs(append([]string{"--config", path}, args...), io.Discard)
}

func TestImagesAndLogs(t *testing.T) {
	c, err := fromFile(t, `
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [registry.example.com/team/*]
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 0
imageMinimumGCAge: 1m
imageMaximumGCAge: 48h
containerLogMaxSize: 1500k
containerLogMaxFiles: 2
containerLogMaxWorkers: 3
containerLogMonitorInterval: 3s
userNamespaces: {idsPerPod: 131072}
memorySwap: {swapBehavior: LimitedSwap}
`, "--maximum-dead-containers=7", "--maximum-dead-containers-per-container=0", "--minimum-container-ttl-duration=5m")
	require.NoError(t, err)
	k := &c.Kubelet
	require.EqualValues(t, "NeverVerifyAllowlistedImages", k.ImagePullCredentialsVerificationPolicy)
	require.Equal(t, []string{"registry.example.com/team/*"}, k.PreloadedImagesVerificationAllowlist)
	require.Equal(t, []int32{70, 0}, []int32{*k.ImageGCHighThresholdPercent, *k.ImageGCLowThresholdPercent})
	require.Equal(t, []time.Duration{time.Minute, 48 * time.Hour}, []time.Duration{k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration})
	require.Equal(t, "1500k", k.ContainerLogMaxSize)
	require.Equal(t, []int32{2, 3}, []int32{*k.ContainerLogMaxFiles, *k.ContainerLogMaxWorkers})
	require.Equal(t, 3*time.Second, k.ContainerLogMonitorInterval.Duration)
	require.EqualValues(t, 131072, *k.UserNamespaces.IDsPerPod)
	require.Equal(t, LimitedSwap, k.MemorySwap.SwapBehavior)
	require.Equal(t, []int{7, 0}, []int{c.Flags.MaxDeadContainers, c.Flags.MaxDeadPerContainer})
	require.Equal(t, 5*time.Minute, c.Flags.MinContainerTTL)

	c, err = fromFile(t, `
containerLogMaxSize: "-1"
memorySwap: {swapBehavior: NoSwap}
`)
	require.NoError(t, err)
	require.Equal(t, NoSwap, c.Kubelet.MemorySwap.SwapBehavior)
	require.Equal(t, "-1", c.Kubelet.ContainerLogMaxSize, "no rotation")
}

func TestImagesAndLogsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"imagePullCredentialsVerificationPolicy: Sometimes": `imagePullCredentialsVerificationPolicy: "Sometimes" is none of NeverVerify, `,
		"preloadedImagesVerificationAllowlist: [a]":         "preloadedImagesVerificationAllowlist: needs",
		"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [a, \"b:1\"]": `preloadedImagesVerificationAllowlist[1]: "b:1": `,
		"memorySwap: {swapBehavior: Swap}":             `memorySwap.swapBehavior: "Swap" is neither`,
		"imageGCHighThresholdPercent: 101":             "imageGCHighThresholdPercent: 101 is not within",
		"imageGCLowThresholdPercent: -1":               "imageGCLowThresholdPercent: -1 is not within",
		"imageGCHighThresholdPercent: 80":              "imageGCLowThresholdPercent: 80 is not less than imageGCHighThresholdPercent: 80",
		"imageMinimumGCAge: -1s":                       "imageMinimumGCAge: -1s is negative",
		"imageMaximumGCAge: -1s":                       "imageMaximumGCAge: -1s is negative",
		"imageMaximumGCAge: 2m":                        "imageMaximumGCAge: 2m0s is not longer",
		"containerLogMaxSize: large":                   `containerLogMaxSize: "large" is not a size`,
		"containerLogMaxSize: \"0\"":                   `containerLogMaxSize: "0" is not a size`,
		"containerLogMaxFiles: 1":                      "containerLogMaxFiles: 1 is less than 2",
		"containerLogMaxWorkers: 0":                    "containerLogMaxWorkers: 0 is less than 1",
		"containerLogMonitorInterval: 2s":              "containerLogMonitorInterval: 2s is less than 3s",
		"userNamespaces: {idsPerPod: 1000}":            "userNamespaces.idsPerPod: 1000 is not a multiple",
		"userNamespaces: {idsPerPod: 4294967296}":      "userNamespaces.idsPerPod: 4294967296 is not",
		"userNamespaces: {idsPerPod: 65536, bogus: 1}": "bogus",
		"imageGCHighThresholdPercent: 200\ncontainerLogMaxFiles: 0\niptablesDropBit: 7": "iptablesDropBit: 7",
		"imageMinimumGCAge: 1x": "imageMinimumGCAge: time: unknown unit",
		"imageGCHighThresholdPercent: 50\nimageGCLowThresholdPercent: 60\naddress: x": `address`,
	} {
		_, err := fromFile(t, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := FromArgs([]string{"--minimum-container-ttl-duration=-1s"}, io.Discard)
	require.ErrorContains(t, err, "--minimum-container-ttl-duration: -1s is negative")
}

func TestCredentialProviders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "providers.yaml")
	write := func(more string) {
		require.NoError(t, os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  matchImages: ["*.example.com"]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`+more), 0o600))
	}
	write("")
	c, err := FromArgs([]string{"--image-credential-provider-config", file, "--image-credential-provider-bin-dir", dir}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{file, dir}, []string{c.Flags.CredentialProviderConfig, c.Flags.CredentialProviderBinDir})

	for want, args := range map[string][]string{
		"--image-credential-provider-config needs --image-credential-provider-bin-dir": {"--image-credential-provider-config", file},
		"--image-credential-provider-bin-dir needs --image-credential-provider-config": {"--image-credential-provider-bin-dir", dir},
		"no such file": {"--image-credential-provider-config", file + "x", "--image-credential-provider-bin-dir", dir},
	} {
		_, err := FromArgs(args, io.Discard)
		require.ErrorContains(t, err, want)
	}
	write("  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n")
	_, err = FromArgs([]string{"--image-credential-provider-config", file, "--image-credential-provider-bin-dir", dir}, io.Discard)
	require.ErrorContains(t, err, `provider "plugin": tokenAttributes: there is no API server`)
}
