// Package mirrors keeps the copies of static pods at an API server: mirror pods, by which
// others see what runs on the node.
//
//	manager, err := mirrors.New(mirrors.Config{Client: client, Node: node})
//	go manager.Run(ctx)
//	manager.Sync(w.Pod, w.MirrorPod)   // at each sync of a static pod
//	cleaners = append(cleaners, manager.Cleaner())
//	manager.Wake()                     // when the Node has come
//
// A mirror is the static pod with an annotation that has its hash, owned by the Node. It
// starts and stops nothing. One that does not fit any more (another hash, another Node, or
// one that is being deleted) is replaced; one that somebody has deleted is made again at
// the next sync of its pod. Mirrors whose static pod is gone are deleted in housekeeping,
// which does not take place before all sources are known.
//
// Nothing here holds up a pod: Sync takes down what is wanted, Run does it, and repeats
// what fails with growing pauses. Deleting names the UID. A pod of that name that is no
// mirror of this node's is never touched.
package mirrors
