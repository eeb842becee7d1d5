package config

import kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

// setProcess fills in what concerns the kubelet's own process.
func setProcess(k *kubeletv1beta1.KubeletConfiguration) {
	setNil(&k.OOMScoreAdj, -999)
	set(&k.MaxOpenFiles, 1_000_000)
}

// process checks what concerns the kubelet's own process.
func (p *problems) process(k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(*k.OOMScoreAdj < -1000 || *k.OOMScoreAdj > 1000, "oomScoreAdj: %d is not within -1000 and 1000", *k.OOMScoreAdj)
	p.refuse(k.MaxOpenFiles < 0, "maxOpenFiles: %d is negative", k.MaxOpenFiles)
}
