// Package iptables keeps the chains that others expect of the kubelet of a node
// (makeIPTablesUtilChains). The kubelet itself needs none of them.
//
//	k, err := iptables.New(iptables.Config{Logger: log})
//	err = k.Run(ctx)
//
// They are, for IPv4 and IPv6:
//
//	mangle  KUBE-IPTABLES-HINT    says by being there in which of the two kinds of iptables, legacy or
//	                              nft, this node has its rules
//	filter  KUBE-FIREWALL         IPv4 only: drops what comes to 127.0.0.0/8 from elsewhere, and is neither
//	                              an answer nor sent on by kube-proxy. INPUT and OUTPUT lead there
//	all     KUBE-KUBELET-CANARY   in mangle, nat and filter: is made last, and does nothing
//
// Each minute it is looked at whether the canaries are there. If somebody has flushed the
// firewall, with the chains, they are not, and everything is made anew. What is there is left as
// it is, also when the kubelet ends: the chains belong to the node, and another kubelet finds
// them. Rules are those of the reference, byte for byte, so that either finds the other's.
//
// A node without iptables, or without the permission to use it, is told of once and left alone.
package iptables
