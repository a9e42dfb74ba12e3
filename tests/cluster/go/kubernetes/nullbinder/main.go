// The nullbinder is the least that a scheduler can do: it binds every pod of its schedulerName to the next node, on client-go,
// with annotations of the size of Berth's and no events. What the API server allows is what it reaches; a scheduler is
// measured against it. It decides nothing and checks nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "whose rights it uses")
	name := flag.String("scheduler-name", "berth-scheduler", "the pods it binds")
	parallel := flag.Int("parallel", 64, "bindings in flight")
	whole := flag.Bool("whole", false, "annotations as for a whole device, not for a share")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1 // the server limits, nobody else
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, client, *name, *parallel, *whole); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client kubernetes.Interface, scheduler string, parallel int, whole bool) error {
	listed, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if len(listed.Items) == 0 {
		return fmt.Errorf("there are no nodes")
	}
	nodes := make([]string, 0, len(listed.Items))
	for _, node := range listed.Items {
		nodes = append(nodes, node.Name)
	}
	queue := make(chan *v1.Pod, 100_000)
	selector := fields.AndSelectors(fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermEqualSelector("spec.schedulerName", scheduler))
	unassigned := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		func(options *metav1.ListOptions) { options.FieldSelector = selector.String() })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: unassigned,
		ObjectType:    &v1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			queue <- object.(*v1.Pod)
		}},
	})
	var next, failed atomic.Int64
	for range parallel {
		go func() {
			for pod := range queue {
				number := next.Add(1) - 1
				err := bind(ctx, client, pod, nodes[number%int64(len(nodes))], number, whole)
				if err != nil && ctx.Err() == nil && failed.Add(1) <= 10 {
					log.Printf("%s/%s: %v", pod.Namespace, pod.Name, err)
				}
			}
		}()
	}
	log.Printf("ready: %d nodes", len(nodes))
	informer.RunWithContext(ctx)
	log.Printf("ended: %d bound, %d failed", next.Load()-failed.Load(), failed.Load())
	return nil
}

func bind(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, node string, number int64, whole bool) error {
	return client.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations(node, number, whole),
		},
		Target: v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// annotations are those of annotations.md 3.2 for a container called main, in their keys and lengths.
func annotations(node string, number int64, whole bool) map[string]string {
	const request, limit = "20389", "40779"
	uuid := fmt.Sprintf("GPU-%08d-2222-3333-4444-555555555555", number)
	exclusive, kind := "false", "Fraction"
	if whole {
		exclusive, kind = "true", "Regular"
	}
	all := map[string]string{
		"received-resource-type": kind,
		"berth.dev/main.devices": uuid,
		"berth.dev/grant": `{"containers":[{"devices":[{"limitMiB":` + limit + `,"requestMiB":` + request + `,"uuid":"` + uuid +
			`"}],"exclusive":` + exclusive + `,"kind":"app","mode":"time-slicing","name":"main"}],"id":"` +
			fmt.Sprintf("g-%08x", number) + `","node":"` + node + `","v":1}`,
	}
	if !whole {
		all["nvidia.com/container.main.gpus.devices"] = uuid
		all["nvidia.com/container.main.gpu-memory.request"] = request + "Mi"
		all["nvidia.com/container.main.gpu-memory.limit"] = limit + "Mi"
		all["berth.dev/main.memory-request-mib"] = request
		all["berth.dev/main.memory-limit-mib"] = limit
	}
	return all
}
