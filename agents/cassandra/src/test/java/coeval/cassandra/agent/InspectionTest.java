package coeval.cassandra.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.apache.cassandra.db.ReadCommandVerbHandler;
import org.apache.cassandra.service.StorageProxy;
import org.junit.jupiter.api.Test;

class InspectionTest {
    @Test
    void findsBothMethods() {
        assertEquals(List.of(), Inspection.missing(InspectionTest.class.getClassLoader()));
    }

    @Test
    void namesTheClassesThatAreNotThere() {
        List<String> missing = Inspection.missing(ClassLoader.getPlatformClassLoader());
        assertEquals(2, missing.size());
        assertTrue(missing.get(0).contains("StorageProxy$LocalReadRunnable is not on"));
        assertTrue(missing.get(1).contains("ReadCommandVerbHandler is not on"));
    }

    @Test
    void namesTheClassesThatAreLoadedAlready() {
        Class<?>[] others = {String.class, StorageProxy.class};
        assertEquals(List.of(), Inspection.loaded(others));
        Class<?>[] one = {String.class, ReadCommandVerbHandler.class};
        List<String> loaded = Inspection.loaded(one);
        assertEquals(1, loaded.size());
        assertTrue(loaded.get(0).contains("ReadCommandVerbHandler is loaded already"));
    }

    @Test
    void namesTheMethodsThatAreNotThere() {
        List<String> missing =
                Inspection.missing(new Renaming(InspectionTest.class.getClassLoader()));
        assertEquals(
                List.of(
                        "the class org.apache.cassandra.db.ReadCommandVerbHandler has no such"
                                + " doVerb"),
                missing);
    }
}
