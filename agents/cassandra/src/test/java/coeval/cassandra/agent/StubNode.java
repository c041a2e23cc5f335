package coeval.cassandra.agent;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.List;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.cassandra.db.ReadCommandVerbHandler;
import org.apache.cassandra.service.StorageProxy;

/** A process with classes of Cassandra's names, which does what its standard input says. */
public final class StubNode {
    private StubNode() {}

    public static void main(String[] arguments) throws Exception {
        StorageProxy.LocalReadRunnable local = new StorageProxy.LocalReadRunnable();
        ReadCommandVerbHandler handler = new ReadCommandVerbHandler();
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("read")) {
                local.run();
                handler.doVerb("read");
                System.out.println(local.reads + handler.reads);
            } else if (line.equals("collect")) {
                List<byte[]> garbage = List.of(new byte[64 << 20], new byte[64 << 20]);
                System.out.println(garbage.size());
                garbage = null;
                local.run();
                System.gc();
                local.run();
            } else if (line.equals("threads")) {
                Thread.getAllStackTraces().keySet().stream()
                        .map(Thread::getName)
                        .filter(name -> name.startsWith("coeval"))
                        .sorted()
                        .forEach(System.out::println);
                System.out.println("end");
            } else {
                printBean();
            }
        }
    }

    private static void printBean() throws Exception {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        ObjectName name = new ObjectName(Agent.BEAN);
        if (beans.isRegistered(name)) {
            for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
                Object value = beans.getAttribute(name, attribute.getName());
                String text =
                        value instanceof String[] ? String.join(" ", (String[]) value) : "" + value;
                System.out.println(attribute.getName() + "=" + text);
            }
        }
        System.out.println("end");
    }
}
